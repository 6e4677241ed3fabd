#include "planner/calibrate/published_candidates.h"

#include <algorithm>
#include <utility>

#include "planner/plan/names.h"

namespace trireme::planner {

namespace {

Schedule schedule_of(const PublishedRow& row, std::int64_t virtual_pipeline) {
  const auto named = kScheduleNames.value_of(row.schedule);
  if (named && *named != Schedule::kOneForwardOneBackward && *named != Schedule::kInterleaved) {
    return *named;
  }
  return virtual_pipeline > 1 ? Schedule::kInterleaved : Schedule::kOneForwardOneBackward;
}

std::vector<std::int64_t> divisors(std::int64_t number, std::int64_t largest) {
  std::vector<std::int64_t> found;
  for (std::int64_t candidate = 1; candidate <= std::min(number, largest); ++candidate) {
    if (number % candidate == 0) {
      found.push_back(candidate);
    }
  }
  return found;
}

// With the embedding and the head counted as a layer each even where layers divide.
std::vector<std::int64_t> split_with_ends(std::int64_t layers, std::int64_t chunks) {
  std::vector<std::int64_t> split;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const std::int64_t ends = (chunk == 0 ? 1 : 0) + (chunk + 1 == chunks ? 1 : 0);
    split.push_back(std::max<std::int64_t>(
        0, (layers + 2) / chunks + (chunk < (layers + 2) % chunks ? 1 : 0) - ends));
  }
  return split;
}

// Plans that fill the open fields of a row, one axis after the other.
class Candidates {
 public:
  Candidates(const PublishedRow& row, const Job& job, Plan first, std::int64_t gpus)
      : row_(row), job_(job), gpus_(gpus), plans_{std::move(first)} {}

  std::vector<Plan> all() {
    if (!row_.tp) {
      branch(divisors(row_.gpus_per_node.value_or(8), 8), [&](Plan& plan, std::int64_t degree) {
        plan.tensor = degree;
        return job_.model.heads % degree == 0 &&
               gpus_ % (plan.tensor * plan.pipeline * plan.context) == 0;
      });
    }
    if (!row_.pp && plans_.front().pipeline == 1) {
      branch(stages(), [&](Plan& plan, std::int64_t degree) {
        plan.pipeline = degree;
        return gpus_ % (plan.tensor * plan.pipeline * plan.context) == 0;
      });
    }
    if (!row_.ep && !row_.tp && job_.model.moe && is_megatron(job_.framework)) {
      branch({1, 8, 16, 32, 64}, [&](Plan& plan, std::int64_t degree) {
        plan.expert = degree;
        plan.expert_tensor = 1;
        return job_.model.moe->experts % degree == 0 && gpus_ % (plan.pipeline * degree) == 0;
      });
    }
    set_data_parallel();
    if (!row_.vpp) {
      branch({1, 2, 3, 4, 5, 6, 8, 10, 12}, [&](Plan& plan, std::int64_t chunks) {
        plan.virtual_pipeline = chunks;
        if (job_.framework.interleaved_chunks > 0 && row_.schedule == "interleaved") {
          return chunks == job_.framework.interleaved_chunks;
        }
        const bool wanted =
            row_.schedule == "interleaved" ? chunks > 1 || plan.pipeline == 1 : true;
        return chunks == 1 ? wanted
                           : row_.schedule != "1f1b" && plan.pipeline > 1 &&
                                 row_.stage_layers.empty() && splits_evenly(plan.pipeline * chunks);
      });
    }
    if (!row_.micro_batch && row_.micro_batches.value_or(0) > 0) {
      branch({*row_.micro_batches}, [&](Plan& plan, std::int64_t parts) {
        const std::int64_t ranks = plan.data_parallel() * parts;
        plan.micro_batch = job_.global_batch / ranks;
        return plan.micro_batch > 0 && job_.global_batch % ranks == 0;
      });
    } else if (!row_.micro_batch) {
      branch({1, 2, 4, 8, 16, 32}, [&](Plan& plan, std::int64_t size) {
        plan.micro_batch = size;
        const bool piped = plan.pipeline > 1 && row_.global_batch;
        if (piped && job_.framework.micro_batches_are_chunks) {
          return one_micro_batch_a_chunk(plan, size);
        }
        if (job_.framework.micro_batch > 0 && (piped || !row_.global_batch)) {
          return size == job_.framework.micro_batch;
        }
        return job_.global_batch == 0 || job_.global_batch % (size * plan.data_parallel()) == 0;
      });
    }
    if (row_.recompute.empty()) {
      branch({0, 1, 2}, [&](Plan& plan, std::int64_t kind) {
        const bool torch = job_.framework.states == StateLayout::kTorch;
        plan.recompute = kind == 2   ? Recompute::kFull
                         : kind == 1 ? Recompute::kSelective
                                     : Recompute::kNone;
        if (kind == 1) {
          plan.recompute_modules = torch ? std::uint16_t{kTorchPerOp} : engine_modules();
        }
        if (recomputes_by_default(row_)) {
          return kind == 2;
        }
        if (job_.framework.recomputes_by_default) {
          return kind == 1;
        }
        return kind != 1 || torch || job_.model.moe ||
               job_.attention == models::AttentionKernel::kUnfused;
      });
    }
    finish();
    return std::move(plans_);
  }

 private:
  template <typename Change>
  void branch(const std::vector<std::int64_t>& values, Change change) {
    std::vector<Plan> next;
    for (const Plan& plan : plans_) {
      for (const std::int64_t value : values) {
        Plan changed = plan;
        if (change(changed, value) && next.size() < kMost) {
          next.push_back(std::move(changed));
        }
      }
    }
    plans_ = std::move(next);
  }

  // Of a row without a layout: what divides the layers, or at least the GPUs.
  [[nodiscard]] std::vector<std::int64_t> stages() const {
    std::vector<std::int64_t> degrees = divisors(job_.model.layers, 128);
    if (!row_.tp && is_megatron(job_.framework)) {
      for (const std::int64_t degree : {2, 4, 8, 16, 32, 64}) {
        if (degree <= job_.model.layers && job_.model.layers % degree != 0) {
          degrees.push_back(degree);
        }
      }
    }
    return degrees;
  }

  // What Megatron's recipes repeat before whole layers.
  [[nodiscard]] std::uint16_t engine_modules() const {
    if (!job_.model.moe) {
      return kCoreAttention;
    }
    constexpr unsigned kLatent = kMlaUpProjection | kMlp | kMoeActivation;
    constexpr unsigned kGrouped = kLayerNorm | kMoeActivation;
    return static_cast<std::uint16_t>(job_.model.latent ? kLatent : kGrouped);
  }

  [[nodiscard]] bool splits_evenly(std::int64_t chunks) const {
    return job_.framework.states == StateLayout::kTorch ? chunks <= job_.model.layers
                                                        : job_.model.layers % chunks == 0;
  }

  // As many micro-batches as there are chunks.
  [[nodiscard]] bool one_micro_batch_a_chunk(const Plan& plan, std::int64_t size) const {
    return job_.global_batch == 0 ||
           job_.global_batch == size * plan.data_parallel() * plan.pipeline * plan.virtual_pipeline;
  }

  void set_data_parallel() {
    for (Plan& plan : plans_) {
      const std::int64_t ranks =
          row_.data_parallel.value_or(gpus_ / (plan.tensor * plan.pipeline * plan.context));
      const std::int64_t shards =
          plan.sharding == Sharding::kNone || row_.shard_degree.value_or(1) == 1
              ? (plan.sharding == Sharding::kNone ? 1 : ranks)
              : *row_.shard_degree;
      // A printed degree may count the context ranks too (PyTorch's mesh): only ranks outside cp
      // are the plan's axis.
      plan.sharded = shards > 0 && ranks % shards == 0 ? shards : ranks;
      plan.replicas = ranks / plan.sharded;
    }
  }

  void finish() {
    for (Plan& plan : plans_) {
      plan.schedule = schedule_of(row_, plan.virtual_pipeline);
      const std::int64_t batch =
          job_.global_batch > 0 ? job_.global_batch / plan.data_parallel() : 0;
      const bool uneven =
          !row_.pp && job_.model.layers % (plan.pipeline * plan.virtual_pipeline) != 0;
      if ((job_.framework.ends_count_as_layers || uneven) && plan.pipeline > 1 &&
          plan.stage_layers.empty()) {
        plan.stage_layers =
            split_with_ends(job_.model.layers, plan.pipeline * plan.virtual_pipeline);
      }
      plan.micro_batches = batch > 0 ? std::max<std::int64_t>(1, batch / plan.micro_batch)
                                     : (plan.pipeline > 1 ? 4 * plan.pipeline : 1);
    }
  }

  static constexpr std::size_t kMost = 16384;
  const PublishedRow& row_;
  const Job& job_;
  std::int64_t gpus_;
  std::vector<Plan> plans_;
};

}  // namespace

std::vector<Plan> candidates_of(const PublishedRow& row, const Job& job, Plan first,
                                std::int64_t gpus) {
  return Candidates(row, job, std::move(first), gpus).all();
}

}  // namespace trireme::planner
