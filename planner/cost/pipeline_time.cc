#include "planner/cost/pipeline_time.h"

#include <algorithm>

#include "planner/plan/schedule.h"

namespace trireme::planner {

namespace {

// 1F1B and GPipe with uneven stages: every micro-batch passes the slowest rank, the first one fills
// and the last one drains the others; with v chunks a rank the fill is one chunk of each. Exact
// without communication when the slowest rank is busy throughout.
double steady(std::int64_t micro_batches, std::int64_t chunks, double sum, double slowest) {
  return static_cast<double>(micro_batches) * slowest +
         (sum - slowest) / static_cast<double>(chunks);
}

// A split backward: fill and drain are the forwards and input gradients of the other stages; the
// last stage puts off up to `waiting` weight gradients until the last input gradient has left, as
// many as there are micro-batches before the last.
double zero_bubble(double m, double p, double waiting, const StageTotals& stages) {
  const double drain = (p - 1) * (stages.sum / p - stages.weight_gradient);
  const double put_off = std::min(m - 1, waiting) * stages.weight_gradient;
  return m * stages.slowest + std::max(0.0, drain - put_off);
}

// Chunks in Megatron's order (training_systems 4): with fewer micro-batches than ranks a rank waits
// for its next chunk until the first micro-batch has passed all the others. Whoever waits for a
// gradient has done what needs none.
double interleaved(const Plan& plan, const StageTotals& stages) {
  const auto chunks = static_cast<double>(plan.virtual_pipeline);
  const auto ranks = static_cast<double>(plan.pipeline);
  if (plan.micro_batches < plan.pipeline) {
    return stages.sum + static_cast<double>(plan.micro_batches - 1) * stages.slowest / chunks -
           (chunks - 1 / ranks) * stages.before_messages;
  }
  const double uneven = std::max(0.0, stages.bottleneck - stages.slowest);
  return steady(plan.micro_batches, plan.virtual_pipeline, stages.sum, stages.slowest) +
         static_cast<double>(plan.micro_batches) * uneven -
         (1 - 1 / ranks) * stages.before_messages;
}

// What messages of `hop` seconds that run beside compute add to interleaved chunks. Where forwards
// and backwards alternate a rank sends one of each kind in a turn, and each is over before the next
// of its kind begins, recompute included (planner/lower/send_waits.h): a turn of forward F and
// backward B takes at least max(F, B) + hop. The last rank has most turns. Before its first
// backward and after its last forward nothing else is there to do: a group's next chunk waits until
// its first micro-batch has passed all p ranks, hops included but for what a backward does before
// it needs the message.
double interleaved_waits(const Plan& plan, const StageTotals& stages, double hop) {
  const auto v = static_cast<double>(plan.virtual_pipeline);
  const auto p = static_cast<double>(plan.pipeline);
  if (plan.micro_batches < plan.pipeline) {
    return 2 * p * (v - 1) * hop;  // all the way round for each chunk; the work is `interleaved`'s
  }
  const auto group = static_cast<double>(group_size_of(plan));
  const double back = std::max(0.0, hop - stages.before_message);
  const double forward = stages.slowest_forward / v;
  const double backward = stages.slowest_backward / v;
  const double turn = stages.slowest / v;
  const double warm_up = (v - 1) * group;  // of the last rank
  const double turns = static_cast<double>(plan.micro_batches) * v - warm_up - 1;
  const double longer = std::max({turn, forward + hop, backward + hop}) - turn;
  const auto loop = [&](double pass, double message) {
    return std::max(0.0, p * (pass + message) - group * pass);
  };
  return turns * longer + (v - 1) * (loop(forward, hop) + loop(backward, back));
}

}  // namespace

void add_ranks(StageTotals& totals, double count, double forward, double backward) {
  totals.sum += count * (forward + backward);
  totals.sum_forward += count * forward;
  totals.sum_backward += count * backward;
  totals.slowest_forward = std::max(totals.slowest_forward, forward);
  totals.slowest_backward = std::max(totals.slowest_backward, backward);
}

bool exchanges_block(const Framework& framework, const Plan& plan) {
  if (splits_every_backward(plan.schedule) || is_in_v(plan.schedule)) {
    return false;
  }
  return plan.virtual_pipeline > 1 ? !framework.p2p_overlap_interleaved : framework.blocking_p2p;
}

PipelineTime pipeline_time(const Plan& plan, const StageTotals& stages, const HopTimes& hop) {
  PipelineTime time;
  const auto m = static_cast<double>(plan.micro_batches);
  const auto p = static_cast<double>(plan.pipeline);
  time.work = m * stages.slowest;
  if (plan.pipeline == 1) {
    time.total = time.work;
    return time;
  }
  const std::int64_t v = plan.virtual_pipeline;
  const auto chunks = static_cast<double>(v);
  double compute = 0;
  switch (plan.schedule) {
    case Schedule::kGpipe:
      compute = steady(plan.micro_batches, 1, stages.sum_forward, stages.slowest_forward) +
                steady(plan.micro_batches, 1, stages.sum_backward, stages.slowest_backward) -
                (1 - 1 / p) * stages.before_messages;
      break;
    case Schedule::kOneForwardOneBackward:
      compute = stages.bottleneck > 0 ? stages.bottleneck
                                      : steady(plan.micro_batches, 1, stages.sum, stages.slowest);
      break;
    case Schedule::kInterleaved:
      compute = interleaved(plan, stages);
      break;
    case Schedule::kZeroBubbleH1:
      compute = stages.bottleneck > 0 ? stages.bottleneck : zero_bubble(m, p, p - 1, stages);
      break;
    case Schedule::kZeroBubbleH2:
      compute = stages.bottleneck > 0 ? stages.bottleneck : zero_bubble(m, p, 2 * (p - 1), stages);
      break;
    case Schedule::kZeroBubbleV:
    case Schedule::kDualPipeV:
      time.total = stages.bottleneck + stages.messages;
      time.exchange = stages.messages;
      time.bubble = stages.bottleneck - time.work;
      return time;
  }
  // Exchanges after the forward and after the backward of every micro-batch and chunk, and the fill
  // and drain of p - 1 hops each way.
  const double exchanges = stages.exchanges * m * chunks;
  const double fill = 2 * (p - 1);
  const double cost = hop.cost();
  if (v == 1 && hop.blocking) {
    time.exchange = exchanges * cost;
    compute += fill * cost - (stages.bottleneck > 0 ? time.exchange : 0);
  } else if (v == 1 && plan.schedule == Schedule::kOneForwardOneBackward && p <= m) {
    // p micro-batches are under way: each comes back to the first stage before the p-th after it
    // may start, so that hops show where the slowest stage leaves no slack for them.
    const double cycle = (stages.sum + fill * cost) / p;
    time.exchange = m * std::max(0.0, cycle - stages.slowest);
    compute += fill * cost;
  } else if (v > 1 && hop.overlapped) {
    time.exchange = interleaved_waits(plan, stages, hop.transfer) + exchanges * hop.synchronisation;
    compute += fill * cost;
  } else {
    const double chunk_time = stages.slowest / (2 * chunks);
    const double exposed = hop.overlapped ? std::max(0.0, hop.transfer - chunk_time) : hop.transfer;
    time.exchange = exchanges * (exposed + hop.synchronisation);
    compute += fill * (hop.transfer + hop.synchronisation);
  }
  time.total = compute + time.exchange;
  time.bubble = compute - time.work;
  return time;
}

}  // namespace trireme::planner
