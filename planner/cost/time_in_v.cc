// Step time of a pipeline whose chunks lie in a V: its order of passes, timed with each chunk's own
// seconds. No formula of sums and slowest ranks holds it: passes of three lengths and two chunks
// take turns, and the rank that has both ends of the model is rarely as long as the others.
#include <algorithm>
#include <array>

#include "planner/cost/time_state.h"
#include "planner/plan/schedule_times.h"
#include "planner/plan/stages.h"

namespace trireme::planner {
namespace {

// The order repeats itself once the V is full and before it drains; of more micro-batches those
// between take as long each as here.
double order_seconds(const Plan& plan, const std::vector<PassSeconds>& chunks, double message) {
  const std::int64_t walked = 5 * plan.pipeline;
  if (plan.micro_batches <= walked) {
    return time_schedule(plan, chunks, message).end;
  }
  Plan shorter = plan;
  shorter.micro_batches = walked;
  const double end = time_schedule(shorter, chunks, message).end;
  shorter.micro_batches = walked - plan.pipeline;
  const double one =
      (end - time_schedule(shorter, chunks, message).end) / static_cast<double>(plan.pipeline);
  return end + static_cast<double>(plan.micro_batches - walked) * one;
}

// What a chunk takes alone: of its passes the GPU's seconds, and the host's to issue them.
struct ChunkAlone {
  PassSeconds gpu, host;
};

ChunkAlone alone_of(const RankTimes& times) {
  const double weight = times.weight_gradient + times.weight_tensor;
  return {{times.forward_total() - times.host_wait_forward,
           times.backward_total() - times.host_wait_backward - weight, weight, 0},
          {times.host_forward, times.host_kernels - times.host_weight, times.host_weight, 0}};
}

// Of a rank's seconds `all`, of which `waits` for the host, the part of one chunk: the host's by
// what it issues there, the rest by what that takes.
double part_of(double PassSeconds::*pass, double all, double waits, const ChunkAlone& one,
               const ChunkAlone& other) {
  const auto share = [&](PassSeconds ChunkAlone::*side) {
    const double sum = one.*side.*pass + other.*side.*pass;
    return sum > 0 ? one.*side.*pass / sum : 0;
  };
  return (all - waits) * share(&ChunkAlone::gpu) + waits * share(&ChunkAlone::host);
}

}  // namespace

// A rank's seconds are those of stage_seconds, with what data parallelism adds to them.
std::vector<PassSeconds> TimeModel::State::chunk_seconds(const Plan& plan,
                                                         const std::vector<RankClass>& ranks) {
  const std::vector<Chunk> chunks = chunks_of(job, plan);
  std::vector<PassSeconds> seconds(chunks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const LayerSet& set = layer_set(plan, ranks[rank]);
    const RankTimes whole = rank_times(plan, set, ranks[rank]);
    std::array<std::size_t, kChunksInV> places{};
    std::array<ChunkAlone, kChunksInV> alone;
    for (std::size_t place = 0; place < places.size(); ++place) {
      places[place] = static_cast<std::size_t>(
          chunk_of_rank(plan, static_cast<std::int64_t>(rank), static_cast<std::int64_t>(place)));
      RankClass one;
      add_chunk(plan, chunks[places[place]], one);
      alone[place] = alone_of(rank_times(plan, set, one));
    }
    const StageSeconds& stage = stage_seconds[rank];
    const double weight_waits = whole.weight_pass() - whole.weight_gradient - whole.weight_tensor;
    for (std::size_t place = 0; place < places.size(); ++place) {
      const ChunkAlone& one = alone[place];
      const ChunkAlone& other = alone[1 - place];
      seconds[places[place]] = {
          part_of(&PassSeconds::forward, stage.forward, whole.host_wait_forward, one, other),
          part_of(&PassSeconds::input_gradient, stage.backward - stage.weight,
                  whole.host_wait_backward - weight_waits, one, other),
          part_of(&PassSeconds::weight_gradient, stage.weight, weight_waits, one, other),
          stage.before_message};
    }
  }
  return seconds;
}

// `hop`: what a message takes beside compute, and what the framework does around it, half at each
// end.
double TimeModel::State::v_seconds(const Plan& plan, const std::vector<RankClass>& ranks,
                                   const HopTimes& hop) {
  std::vector<PassSeconds> seconds = chunk_seconds(plan, ranks);
  const double around = hop.overlapped ? hop.synchronisation : 0;
  for (std::size_t c = 0; c < seconds.size(); ++c) {
    const auto chunk = static_cast<std::int64_t>(c);
    const auto leaves = [&](std::int64_t other) {
      return other >= 0 && other < std::ssize(seconds) &&
             rank_of_chunk(plan, other) != rank_of_chunk(plan, chunk);
    };
    const double messages = (leaves(chunk - 1) ? 0.5 : 0) + (leaves(chunk + 1) ? 0.5 : 0);
    seconds[c].forward += messages * around;
    seconds[c].input_gradient += messages * around;
  }
  return order_seconds(plan, seconds, hop.transfer);
}

}  // namespace trireme::planner
