// What the stages of a pipeline hand each other, and what the slowest of them makes the others
// wait.
#include <algorithm>
#include <bit>

#include "core/check.h"
#include "planner/cost/adapters.h"
#include "planner/cost/time_state.h"
#include "planner/plan/sample_lengths.h"
#include "planner/plan/stages.h"

namespace trireme::planner {

using topologies::Collective;

HopTimes TimeModel::State::hop(const Plan& plan, const Placed& placed) {
  HopTimes hop;
  if (plan.pipeline == 1) {
    return hop;
  }
  double bytes = 2.0 * static_cast<double>(plan.micro_batch * timed_sequence(job, plan)) *
                 static_cast<double>(job.model.hidden) / static_cast<double>(plan.context);
  // Megatron of 2021, when it interleaved, and DeepSpeed's pipeline engine cut the boundary tensor
  // over the tensor ranks and gather it behind the link.
  const bool classic = job.framework.implementation == models::Implementation::kClassicMegatron;
  const bool scattered =
      !plan.sequence_parallel &&
      (job.framework.scattered_boundary || (classic && plan.schedule == Schedule::kInterleaved));
  if (scattered) {
    hop.transfer = collectives.time(Collective::kAllGather, placed.tensor, bytes);
  }
  if (plan.sequence_parallel || scattered) {
    bytes /= static_cast<double>(plan.tensor);
  }
  const double free = collectives.time(Collective::kSendRecv, placed.pair, bytes);
  hop.transfer += message_seconds(fit, free, bytes);
  // This project's streams wait for a message by themselves.
  const bool streams =
      job.framework.implementation == models::Implementation::kTrireme && plan.virtual_pipeline > 1;
  hop.transfer += streams ? fit.exchange_seconds : 0;
  hop.synchronisation = streams ? 0 : fit.exchange_seconds;
  hop.blocking = exchanges_block(job.framework, plan);
  hop.overlapped = job.framework.p2p_overlap_interleaved;
  return hop;
}

// 1F1B with uneven stages: the longest of what each stage forces. Stage k waits for the forwards
// before it at the start and for their backwards at the end. Between its first forward and the
// first backward that comes back it has p - 1 - k more forwards to do, between its last forward and
// the last backward as many backwards: what the stages after it take beyond those is idle. A stage
// that is idle before a backward has by its message done what needs none; the last one never is.
double TimeModel::State::bottleneck(const Plan& plan, const std::vector<RankClass>& classes) {
  if (is_in_v(plan.schedule) && plan.pipeline > 1) {
    return v_seconds(plan, classes, {});
  }
  if (splits_backward(plan)) {
    return split_bottleneck(plan, classes);
  }
  if (plan.schedule == Schedule::kInterleaved) {
    return seconds_in_turn(plan, classes);
  }
  if (plan.schedule != Schedule::kOneForwardOneBackward || plan.pipeline == 1) {
    return 0;
  }
  double longest = 0;
  for (std::size_t k = 0; k < classes.size(); ++k) {
    double before = 0;
    double after = 0;
    for (std::size_t c = 0; c < classes.size(); ++c) {
      const StageSeconds& other = stage_seconds[c];
      const double one = other.forward + other.backward;
      before += static_cast<double>(classes[k].before[c]) * (one - other.before_message);
      after += static_cast<double>(classes[k].after[c]) *
               (one - (classes[c].head ? 0 : other.before_message));
    }
    const StageSeconds& own = stage_seconds[k];
    const std::int64_t behind = plan.pipeline - 1 - classes[k].last_rank;
    const auto more = static_cast<double>(std::min(behind, plan.micro_batches - 1));
    const double waited = after - own.before_message;
    const double first = std::max(0.0, waited - more * own.forward);
    const bool one_wait = plan.micro_batches <= behind + 1;
    const double last = std::max(0.0, waited - more * own.backward - (one_wait ? first : 0));
    const double work =
        static_cast<double>(plan.micro_batches) * (own.forward + own.backward + own.exchange);
    longest = std::max(longest, before + work + first + last);
  }
  return longest;
}

// Chunks in turn, of one micro-batch: a rank's next chunk waits for the one before on the last
// rank, and p micro-batches go round p ranks without a turn to spare. So ranks are in their chunks
// of one place at a time: one whose last chunk has the head keeps the others waiting there, and
// waits for them in its other chunks. The embedding's turn is the neighbour of the head's, as far
// as passes of both kinds alternate; in the first and the last p micro-batches' they do not, and
// all ranks take as long as the longest.
double TimeModel::State::seconds_in_turn(const Plan& plan, const std::vector<RankClass>& classes) {
  const std::size_t places = classes.front().chunks.size();
  double ranks = 0;
  for (const RankClass& one : classes) {
    ranks += static_cast<double>(one.count);
  }
  const double alone =
      std::min(1.0, static_cast<double>(plan.pipeline) / static_cast<double>(plan.micro_batches));
  double longest = 0;
  double all_longest = 0;
  for (std::size_t place = 0; place < places; ++place) {
    const bool last = place + 1 == places;
    double pace = 0;  // the mean over ranks
    double slowest = 0;
    for (std::size_t c = 0; c < classes.size(); ++c) {
      StageSeconds& own = stage_seconds[c];
      const double body = own.body() * classes[c].chunks[place].share;
      const double head = last ? own.head : 0;
      own.turn = body + (last ? own.embedding : 0) + head;
      pace += static_cast<double>(classes[c].count) * own.turn;
      slowest = std::max(slowest, body + (place == 0 ? own.embedding : 0) + head);
    }
    pace /= ranks;
    const double alike = classes.front().chunks[place].places;  // of every class
    all_longest += alike * slowest;
    for (StageSeconds& own : stage_seconds) {
      own.in_turn += alike * std::max(own.turn, pace);
      longest = std::max(longest, own.in_turn);
    }
  }
  return longest + alone * (all_longest - longest);
}

// A split backward: the longest of what each stage forces. Stage k waits for the forwards before it
// and then does all of its own; all but the weight gradients it puts off lie before its last input
// gradient, which passes the stages before it, each of which then has its own put off to do. Until
// its first gradient comes back through all stages behind it a stage has only the forwards that it
// runs ahead. Not with the optimizer of the zero-bubble repository (a fork of the classic
// Megatron), which updates before it knows the norm of all gradients: there the first stage's next
// step fills the time in which the last one ends this (Qi et al. 2024, section 4).
double TimeModel::State::split_bottleneck(const Plan& plan,
                                          const std::vector<RankClass>& classes) const {
  if (job.framework.implementation == models::Implementation::kClassicMegatron) {
    return 0;
  }
  const std::int64_t each_way = plan.schedule == Schedule::kZeroBubbleH2 ? 2 : 1;
  const auto at_most = [&](std::int64_t count) {
    return static_cast<double>(std::min(plan.micro_batches, count));
  };
  const auto all_of = [&](const RankClass& rank) {
    const StageSeconds& own = stage_seconds[static_cast<std::size_t>(&rank - classes.data())];
    return static_cast<double>(plan.micro_batches) * (own.forward + own.backward);
  };
  const auto put_off = [&](const RankClass& rank) {
    const StageSeconds& own = stage_seconds[static_cast<std::size_t>(&rank - classes.data())];
    return at_most(each_way * rank.last_rank + 1) * own.weight;
  };
  double longest = 0;
  for (const RankClass& stage : classes) {
    double before = 0;  // forwards of the stages before
    double first = 0;   // until its first gradient comes
    for (std::size_t c = 0; c < classes.size(); ++c) {
      const StageSeconds& other = stage_seconds[c];
      before += static_cast<double>(stage.before[c]) * other.forward;
      first += static_cast<double>(classes[c].count) * other.forward +
               static_cast<double>(stage.after[c]) * (other.backward - other.weight);
    }
    const StageSeconds& own = stage_seconds[static_cast<std::size_t>(&stage - classes.data())];
    const std::int64_t ahead = each_way * (plan.pipeline - 1 - stage.last_rank) + 1;
    longest = std::max(
        {longest, before + all_of(stage), first + all_of(stage) - at_most(ahead) * own.forward});
    for (const RankClass& earlier : classes) {
      double passed = 0;  // input gradients of the stages from `earlier` to before `stage`
      for (std::size_t c = 0; c < classes.size(); ++c) {
        passed += static_cast<double>(stage.before[c] - earlier.before[c]) *
                  (stage_seconds[c].backward - stage_seconds[c].weight);
      }
      if (earlier.last_rank < stage.last_rank) {
        longest =
            std::max(longest, before + all_of(stage) - put_off(stage) + passed + put_off(earlier));
      }
    }
  }
  return longest;
}

const LayerSet& TimeModel::State::group_set(std::size_t group, const Plan& plan,
                                            const LayerSetKey& key) {
  GroupTimer& timer = *group_timers[group];
  const LayerSet* known = timer.sets.find(key);
  return known != nullptr ? *known : timer.sets.insert(key, timer.layers.measure(plan, kinds));
}

const LayerSet& TimeModel::State::layer_set(const Plan& plan, const RankClass& rank) {
  if (rank.groups == 0) {
    return layer_set(plan);
  }
  const LayerSetKey key = layer_key(plan);
  const LayerSet* slowest = nullptr;
  double longest = -1;
  for (std::size_t g = 0; g < group_timers.size(); ++g) {
    if ((rank.groups >> g & 1U) == 0) {
      continue;
    }
    const LayerSet& set = group_set(g, plan, key);
    if (std::has_single_bit(rank.groups)) {
      return set;
    }
    const RankTimes times = rank_times(plan, set, rank);
    const double one = times.forward_total() + times.backward_total();
    if (slowest == nullptr || one > longest) {
      longest = one;
      slowest = &set;
    }
  }
  TRIREME_CHECK(slowest != nullptr);
  return *slowest;
}

bool TimeModel::State::predicts(const RankClass& rank) const {
  bool found = false;
  for (std::size_t kind = 0; kind < rank.layers.size(); ++kind) {
    found = found || (rank.layers[kind] > 0 && kinds.first_layer[kind] >= job.model.layers);
  }
  return found;
}

// The first and the last stage sum their gradients of a tied table at the end of the step; so do
// the first and the one whose extra prediction modules read a copy of it.
double TimeModel::State::tied_exchange(const Plan& plan, const Placed& placed) {
  if (!shares_table(job, plan) || !trains_table(job.training)) {
    return 0;
  }
  const double shards = plan.sharding == Sharding::kNone ? 1 : static_cast<double>(plan.sharded);
  const double elements = static_cast<double>(job.model.vocab * job.model.hidden) /
                          (static_cast<double>(plan.tensor) * shards);
  return collectives.time(Collective::kAllReduce, placed.ends,
                          reduce_bytes_of(job, plan.sharding != Sharding::kNone) * elements);
}

}  // namespace trireme::planner
