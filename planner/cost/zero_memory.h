// What DeepSpeed's ZeRO takes beside states and activations: pools of its streams, segments that
// nothing else uses, copies of gradients.
#pragma once

#include "planner/cost/stage_buffers.h"
#include "planner/cost/stage_contents.h"
#include "planner/cost/stage_memory.h"

namespace trireme::planner {

// DeepSpeed takes the norm of a gradient on its way to the host in fp64, of the rank's part of a
// tensor at a time: the table's is the largest, and the head's comes when all is still kept
// (stage_1_and_2.py set_norm_for_param_grad_in_gpu; stage3.py _constant_buffered_norm2, by 2.5e8
// elements).
double norm_copy_bytes(const StageContext& context, const StageContents& stage);

// ZeRO's contiguous reduction buckets, whole however little is trained
// (torch.empty(reduce_bucket_size)). The third stage has one for good (stage3.py
// _setup_for_real_optimizer), and lays what is in it together once more to reduce it
// (reduce_scatter_coalesced). The others allocate theirs with a backward's first gradient, two
// where reduction runs beside backward, which a pipeline's does not; they let them go with the
// reduction, which the first stage does once a step (stage_1_and_2.py setup_buckets,
// _release_ipg_buffers; engine.py _configure_zero_optimizer).
double lasting_bucket(const Job& job, const Plan& plan);
struct BackwardBuckets {
  double bytes = 0;
  bool at_loss = false;  // allocated before backward (until DeepSpeed 0.16.5)
  bool wait = false;     // from one micro-batch's backward to the next one's
};
BackwardBuckets backward_buckets(const StageContext& context, const StageContents& stage);

// Of ZeRO-3, beside what is gathered at the main stream's peak: the most that ever is, a table that
// comes while the layers before it are there, and the gradient of a table, whose memory serves
// again only once the reduction's stream has passed it (partitioned_param_coordinator.py, stage3.py
// partition_grads). Layers cut up the segment that the embedding left before the head comes, unless
// segments are expandable: the coordinator and PyTorch's allocator, replayed over ten models'
// modules with two fetches under way, reserve 0.6 to 1.3 of both tables and what may be live, 1.0
// on average.
double zero_pools(const Job& job, const StageContents& stage, const Gathered& gathered,
                  const MemoryItems& peak);

// What is allocated beside a moment, not at it: the head's gradient, and backward's buckets.
struct Besides {
  double head_gradient = 0, buckets = 0;
};

// A tensor larger than every block that the allocator holds gets a segment of its own, which
// nothing smaller gives back: under ZeRO the gradient of the head, which comes when the loss's
// blocks are free, and what the step lays together and casts of a whole partition
// (stage_1_and_2.py step; stage3.py by sub-groups). Expandable segments join what is free.
// A reduction of the third stage has its copy in a pool of its own.
double own_segments(const StageContext& context, const StageContents& stage,
                    const Besides& besides);

}  // namespace trireme::planner
