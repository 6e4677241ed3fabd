#include "planner/cost/offload_cost.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "planner/cost/optimizer_bytes.h"
#include "planner/plan/kept_on_host.h"
#include "planner/plan/moved_offload.h"

namespace trireme::planner {

namespace {

// Adam reads and writes weight and both moments in fp32, reads the gradient and writes the 16-bit
// weight; other optimizers have other moments. DeepSpeed scales the gradients before, a pass of
// their own (unscale_and_clip_grads).
double update_bytes(const Job& job) {
  const double moments = job.optimizer == Optimizer::kAdam ? 8 : moment_bytes(job);
  const double scaled = job.framework.states == StateLayout::kDeepSpeed ? 2 * 4 : 0;
  return 2 * (4 + moments) + 4 + 2 + scaled;
}
// What one core moves: one thread of STREAM has 12 GB/s on Skylake-SP with DDR4-2666, half as much
// again on Broadwell-EP before it (AnandTech 11544, 2017). That servers since are alike is our own
// assumption.
constexpr double kCoreRate = 12e9;

// DeepSpeed takes checkpoints to the host with tensor.cpu() and back with .to(): into memory that
// is not pinned and is allocated anew, while the stream waits (runtime/activation_checkpointing/
// checkpointing.py; ArcticTraining's checkpoints for long sequences do the same). Its own table of
// ZeRO-3 states that leave and come back so: 3 and 7.5 GB/s a GPU. Into memory that is there
// already a copy goes down as fast as one comes up.
constexpr double kPageableDown = 3e9;
constexpr double kPageable = 7.5e9;

// Of the channels' rate that the update reaches on two sockets: DeepSpeed's vectorised Adam 0.25 s
// for 10^9 parameters on two Xeon 8168 (120 of 256 GB/s); PyTorch's fused one, which Megatron asks
// for, 0.19 s on DGX H100 (158 of 614 GB/s); PyTorch's plain one 1.43 s on the Xeons (ZeRO-Offload,
// table 4). The foreach form is the plain one on a CPU (torch/optim/optimizer.py).
double share_on_two_sockets(const Job& job) {
  constexpr double kDeepSpeed = 0.47;
  constexpr double kFused = 0.26;
  constexpr double kPlain = 0.082;
  switch (job.framework.states) {
    case StateLayout::kDeepSpeed:
      return kDeepSpeed;
    case StateLayout::kFlatBuffers:
      return kFused;
    case StateLayout::kTorch:
      return job.framework.foreach_optimizer ? kPlain : kFused;
  }
  return kFused;
}

// The cores of one socket have no other's channels to wait for; they fill four fifths of their own
// (STREAM on Grace: 410 of 512 GB/s).
double adam_share(const Job& job) {
  constexpr double kMost = 0.8;
  return std::min(kMost, share_on_two_sockets(job) * 2 / sockets_of(job.cluster));
}

// Bytes of an element's gradient as it goes down. DeepSpeed's last ones are cast to the masters'
// type on the GPU; those of earlier micro-batches go up and down in 16 bits, which is as much.
double gradient_on_host(const Framework& framework) {
  return framework.states == StateLayout::kDeepSpeed
             ? std::max(framework.gradient_bytes, framework.master_bytes)
             : framework.gradient_bytes;
}

bool is_zero(const Job& job) {
  return job.framework.states == StateLayout::kDeepSpeed;
}

bool is_third_stage(const Job& job, const Plan& plan) {
  return is_zero(job) && plan.sharding == Sharding::kFull;
}

// How gradients and parameters go: copies of memory that is not pinned pass through a buffer of the
// driver's while the host, which issues the kernels, waits.
struct Way {
  double rate = 0;  // bytes a second
  bool beside = true;
};

Way way_of(const Job& job, const HostMachine& host) {
  const bool pinned = job.framework.offload_pinned || !is_zero(job);
  return {pinned ? host.link_rate : std::min(host.link_rate, kPageable),
          pinned && job.offload.overlap};
}

// Seconds in which an updated weight comes back: in 16 bits, or as wide as its master is staged on
// the GPU. ZeRO-3 casts into memory that is not pinned (stage3.py
// _reassign_or_swap_out_partitioned_parameters); offloaded parameters stay where they are.
double handed_back(const Job& job, const Plan& plan, const HostMachine& host) {
  const Framework& framework = job.framework;
  const bool third = is_third_stage(job, plan);
  if (third && job.offload.parameters != OffloadTo::kNone) {
    return 0;
  }
  if (third || framework.offload_pageable) {
    return framework.parameter_bytes / std::min(host.link_rate, kPageable);
  }
  return std::max(framework.parameter_bytes, framework.offload_staging_bytes) /
         way_of(job, host).rate;
}

// Bytes of one direction that `window` seconds of compute hide.
double exposed(double seconds, double window, bool overlap) {
  return overlap ? std::max(0.0, seconds - window) : seconds;
}

// Seconds of the gradients' ways that nothing hides. Those of the last micro-batch go down in full
// precision beside its backward. Every earlier one adds to what lies on the host: DeepSpeed brings
// the 16-bit sum up, adds on the GPU and takes it down again
// (async_accumulate_grad_in_cpu_via_gpu), PyTorch takes each gradient down and adds there.
double gradient_seconds(const Job& job, const Plan& plan, const Way& way, const OffloadWork& work,
                        double updated) {
  const Framework& framework = job.framework;
  const bool third = is_third_stage(job, plan);
  const bool beside =
      way.beside && framework.overlap_grad_reduce && !(third && framework.offload_waits);
  const double once = updated * gradient_on_host(framework) / way.rate;
  if (job.offload.gradients == OffloadTo::kNone) {
    return exposed(once, work.backward, beside);
  }
  const double last = third && framework.offload_round_trip ? 2 * once : once;
  return exposed(last, work.backward, beside) +
         (work.micro_batches - 1) * exposed(once, work.backward, beside);
}

}  // namespace

ResidentShares resident_shares(const Job& job, const Plan& plan) {
  const Offload& offload = job.offload;
  ResidentShares shares;
  if (offload.optimizer != OffloadTo::kNone) {
    shares.optimizer = 1 - offload.optimizer_share;
  }
  if (offload.gradients != OffloadTo::kNone) {
    shares.gradients = 0;
  }
  if (offload.parameters != OffloadTo::kNone) {
    shares.parameters = 0;
  }
  if (offload.activations != OffloadTo::kNone) {
    // Beside those that stay: the layer at work and the one that moves, of this project's runtime
    // whole layers and two on the move (planner/lower/kept_on_host.cc).
    const double layers =
        std::max(1.0, static_cast<double>(job.model.layers) /
                          static_cast<double>(plan.pipeline * plan.virtual_pipeline));
    if (job.framework.implementation == models::Implementation::kTrireme) {
      const double moved =
          static_cast<double>(layers_on_host(offload, std::lround(layers))) / layers;
      shares.staying_activations = 1 - moved;
      shares.activations = std::min(1.0, 1 - moved + 2 / layers);
    } else {
      shares.activations = std::max(1 - offload.activation_share, std::min(1.0, 2 / layers));
      shares.staying_activations = shares.activations;
    }
  }
  return shares;
}

double host_memory_gib(const Job& job, const Plan& plan, double offloaded_bytes_of_rank) {
  // A process of PyTorch with CUDA: 3 to 4 GB (PEFT's tables without offload).
  constexpr double kProcessGib = 3;
  const double ranks = std::min(ranks_of_node(job.cluster), static_cast<double>(plan.gpus()));
  return ranks * (offloaded_bytes_of_rank / kGiB + kProcessGib);
}

double streamed_seconds(const Job& job, const HostMachine& host, double elements, double on_gpu) {
  constexpr double kStates = 3;  // master and moments
  if (elements <= 0) {
    return 0;
  }
  const double chunk = std::min(elements, static_cast<double>(kStreamedElements));
  const double chunks = elements / chunk;
  const Bytes state(static_cast<std::int64_t>(job.framework.master_bytes * chunk));
  const double way = kStates * host_copy_seconds(host, state, HostWays::kBoth);
  const double update = on_gpu / chunks;
  // The first chunk comes, the last is updated and goes; between them the slowest of the three.
  return (chunks - 1) * std::max(way, update) + 2 * way + update;
}

OffloadTime offload_time(const Job& job, const Plan& plan, const HostMachine& host,
                         const OffloadWork& work) {
  const Offload& offload = job.offload;
  OffloadTime time;
  if (!offload.any()) {
    return time;
  }
  const double ranks = std::min(ranks_of_node(job.cluster), static_cast<double>(plan.gpus()));
  const double parameter = job.framework.parameter_bytes;
  if (offload.parameters != OffloadTo::kNone) {
    // Each pass brings this rank's shard up; backward takes the reduced gradient down beside it.
    const Way way = way_of(job, host);
    const double shard = work.parameters * parameter / way.rate;
    const double drives = offload.parameters == OffloadTo::kNvme
                              ? ranks * work.parameters * parameter / host.nvme_rate
                              : 0;
    const double pass = std::max(shard, drives);
    time.exposed += work.micro_batches * (exposed(pass, work.forward, way.beside) +
                                          exposed(pass, work.backward, way.beside));
  }
  if (offload.activations != OffloadTo::kNone) {
    const bool pageable = is_zero(job);
    const bool beside = offload.overlap && !pageable;
    const double link = host.link_rate;
    const double down = work.kept / (pageable ? std::min(link, kPageableDown) : link);
    const double up = work.kept / (pageable ? std::min(link, kPageable) : link);
    time.exposed += work.micro_batches *
                    (exposed(down, work.forward, beside) + exposed(up, work.backward, beside));
  }
  if (streams_optimizer(job)) {
    time.exposed += streamed_seconds(job, host, work.trained, work.update) - work.update;
    time.optimizer = work.update;
  } else if (offload.optimizer != OffloadTo::kNone) {
    const double updated = work.trained * offload.optimizer_share;
    time.exposed += gradient_seconds(job, plan, way_of(job, host), work, updated) +
                    updated * handed_back(job, plan, host);
    const double all = host.memory_rate * adam_share(job);
    const auto threads = static_cast<double>(job.framework.host_threads);
    const double rate = threads > 0 ? std::min(all, ranks * threads * kCoreRate) : all;
    const double update = ranks * updated * update_bytes(job) / rate;
    const double drives = offload.optimizer == OffloadTo::kNvme
                              ? ranks * updated * 2 *
                                    (job.framework.master_bytes + moment_bytes(job)) /
                                    host.nvme_rate
                              : 0;
    time.optimizer = std::max(update, drives);
  }
  return time;
}

}  // namespace trireme::planner
