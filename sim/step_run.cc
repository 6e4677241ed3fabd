#include "sim/step_run.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/error.h"
#include "core/random.h"

namespace trireme::sim {
namespace {

constexpr std::uint64_t kOpsLargest = 100'000'000;  // 4 GB with a trace of them

// Two independent 32-bit halves, of mean 0 and deviation 1: the sum of four uniform numbers,
// scaled.
double spread(std::uint64_t key) {
  double sum = 0;
  for (std::uint64_t i = 0; i < 4; ++i) {
    sum += random_uniform(key, i);
  }
  return (sum - 2.0) * std::sqrt(3.0);
}

std::uint64_t op_count(const ActorGrid& grid, const std::vector<RolePlan>& roles) {
  std::uint64_t count = 0;
  for (const Actor& actor : grid.actors()) {
    count += roles[index_of(actor.role)].ops.size();
  }
  if (count > kOpsLargest) {
    throw Error("simulate", "every rank by itself is " + std::to_string(count) +
                                " ops, more than the " + std::to_string(kOpsLargest) +
                                " that fit; use fewer GPUs or no jitter");
  }
  return count;
}

}  // namespace

StepRun::StepRun(const StepProgram& program, const StepTimes& times,
                 const topologies::Cluster& cluster, const SimulateOptions& options)
    : program_(program),
      options_(options),
      grid_(program, cluster, options.faults, options.unfold),
      roles_(digest(program, times)),
      meetings_(meetings(program, grid_, roles_)),
      fabric_(program, cluster, grid_, flows_) {
  const std::uint64_t ops = op_count(grid_, roles_);
  holds_.reserve(ops);
  actors_.resize(grid_.actors().size());
  for (std::uint32_t a = 0; a < actors_.size(); ++a) {
    actors_[a].first_op = holds_.size();
    for (const RoleOp& op : plan_of(a).ops) {
      TRIREME_CHECK(op.holds < kEnded);
      holds_.push_back(static_cast<std::uint16_t>(op.holds));
    }
  }
  if (options.record_trace) {
    timings_.resize(ops);
  }
  arrived_.resize(meetings_.transfers);
  channel_of_.resize(meetings_.transfers);
  for (std::uint32_t c = 0; c < meetings_.channels.size(); ++c) {
    const Channel& channel = meetings_.channels[c];
    std::fill_n(channel_of_.begin() + channel.first, channel.count, c);
  }
  ring_loads_.resize(meetings_.channels.size());
  spread_loads_.resize(meetings_.channels.size());
  last_load_.resize(fabric_.links().size());
}

Simulation StepRun::run() {
  hold_all();
  flows_.share(SimTime{});
  while (true) {
    const SimTime event = queue_.empty() ? kNever : queue_.next().time;
    const SimTime now = std::min(event, flows_.next_finish());
    if (now == kNever) {
      break;
    }
    bool flows_changed = false;
    while (flows_.next_finish() == now) {
      flows_changed = true;
      end_transfer(flows_.finish(now), now);
    }
    while (!queue_.empty() && queue_.next().time == now) {
      handle(queue_.pop());
    }
    flows_.share(now);
    events_ += flows_.changed().size();
    if (options_.record_links && (flows_changed || !flows_.changed().empty())) {
      sample_links(now);
    }
  }
  return report();
}

// Every op that waits for nothing is free at the start.
void StepRun::hold_all() {
  for (std::uint32_t a = 0; a < actors_.size(); ++a) {
    const RolePlan& plan = plan_of(a);
    for (std::uint32_t op = 0; op < plan.ops.size(); ++op) {
      if (plan.ops[op].holds == 0) {
        when_free(a, op, SimTime{});
      }
    }
  }
}

void StepRun::release(std::uint32_t actor, std::uint32_t op, SimTime now) {
  if (--holds_[actors_[actor].first_op + op] == 0) {
    when_free(actor, op, now);
  }
}

void StepRun::when_free(std::uint32_t actor, std::uint32_t op, SimTime now) {
  const std::int64_t issued = plan_of(actor).ops[op].issued;
  if (issued > now.picoseconds) {
    queue_.schedule({issued}, kOpIssued | actor << 2, op);
  } else {
    ready(actor, op, now);
  }
}

void StepRun::ready(std::uint32_t actor, std::uint32_t op, SimTime now) {
  ++events_;
  const RoleOp& mine = plan_of(actor).ops[op];
  if (options_.record_trace) {
    OpTiming& timing = timings_[actors_[actor].first_op + op];
    timing = {grid_.actors()[actor].rank,
              grid_.actors()[actor].role,
              static_cast<OpId>(op),
              0,
              now,
              now,
              now};
  }
  if (mine.slot == kNone) {
    start_compute(actor, op, now);
  } else {
    arrive(actor, mine, now);
  }
}

void StepRun::account(ActorState& state, SimTime now) {
  const SimDuration passed = now - state.changed;
  state.spent[static_cast<std::size_t>(state.now)] += passed;
  if (state.communicating > 0) {
    state.communication += passed;
  }
  state.changed = now;
}

void StepRun::begin_activity(ActorState& state, Activity activity, SimTime now) {
  account(state, now);
  ++state.active[static_cast<std::size_t>(activity)];
  state.now = std::min(state.now, activity);
}

void StepRun::end_activity(ActorState& state, Activity activity, SimTime now) {
  account(state, now);
  if (--state.active[static_cast<std::size_t>(activity)] == 0 && activity == state.now) {
    std::size_t next = 0;
    while (next + 1 < kActivities && state.active[next] == 0) {
      ++next;
    }
    state.now = static_cast<Activity>(next);
  }
}

void StepRun::end_op(std::uint32_t actor, std::uint32_t op, SimTime now) {
  ++events_;
  last_ = now;
  ActorState& state = actors_[actor];
  ++state.done;
  holds_[state.first_op + op] = kEnded;
  if (options_.record_trace) {
    timings_[state.first_op + op].end = now;
  }
  const RolePlan& plan = plan_of(actor);
  const RoleOp& mine = plan.ops[op];
  if (mine.next != kNone) {
    release(actor, mine.next, now);
  }
  for (std::uint32_t d = mine.dependents.first; d < mine.dependents.first + mine.dependents.count;
       ++d) {
    release(actor, plan.dependents[d], now);
  }
}

double StepRun::compute_factor(std::uint32_t actor, std::uint32_t op) const {
  double factor = grid_.actors()[actor].compute_factor;
  const Faults& faults = options_.faults;
  const std::uint64_t rank = index_of(grid_.actors()[actor].rank);
  const std::uint64_t seed = faults.seed * 0x2545f4914f6cdd1dULL + (rank << 32);
  if (faults.rank_spread > 0) {
    factor *= std::max(1 + faults.rank_spread * spread(seed + 0xffffffffU), 0.05);
  }
  if (faults.jitter > 0) {
    factor *= std::max(1 + faults.jitter * spread(seed + op), 0.05);
  }
  return factor;
}

void StepRun::start_compute(std::uint32_t actor, std::uint32_t op, SimTime now) {
  ActorState& state = actors_[actor];
  begin_activity(state, plan_of(actor).ops[op].activity, now);
  const double factor = compute_factor(actor, op);
  const std::int64_t alone = plan_of(actor).ops[op].duration;
  const std::int64_t duration =
      factor == 1.0 ? alone
                    : static_cast<std::int64_t>(std::ceil(static_cast<double>(alone) * factor));
  SimTime end = now + SimDuration(duration);
  if (options_.compute_slowdown > 0) {
    const double stretched = 1 + options_.compute_slowdown * plan_of(actor).ops[op].meets;
    if (state.collectives > 0) {
      const double slow = static_cast<double>(duration) * stretched;
      end = now + SimDuration(static_cast<std::int64_t>(std::ceil(slow)));
    }
    state.running.push_back({op, static_cast<double>(duration), stretched, now, end});
  }
  queue_.schedule(end, kOpEnds | actor << 2, op);
}

void StepRun::end_compute(std::uint32_t actor, std::uint32_t op, SimTime now) {
  ActorState& state = actors_[actor];
  if (options_.compute_slowdown > 0) {
    const auto found = std::find_if(
        state.running.begin(), state.running.end(),
        [&](const Running& running) { return running.op == op && running.end == now; });
    if (found == state.running.end()) {
      return;  // its end moved since
    }
    state.running.erase(found);
  }
  end_activity(state, plan_of(actor).ops[op].activity, now);
  end_op(actor, op, now);
}

// Collectives begin (slow) or the last one ends: what computes goes on at another speed.
void StepRun::change_speed(std::uint32_t actor, SimTime now, bool slow) {
  for (Running& running : actors_[actor].running) {
    const double stretched = running.stretched;
    const auto passed = static_cast<double>((now - running.since).value);
    running.left = std::max(running.left - (slow ? passed : passed / stretched), 0.0);
    running.since = now;
    const double rest = slow ? running.left * stretched : running.left;
    running.end = now + SimDuration(static_cast<std::int64_t>(std::ceil(rest)));
    queue_.schedule(running.end, kOpEnds | actor << 2, running.op);
  }
}

void StepRun::handle(const Event& event) {
  const std::uint32_t actor = event.kind >> 2;
  switch (event.kind & 3U) {
    case kOpEnds:
      end_compute(actor, event.index, event.time);
      break;
    case kOpIssued:
      ready(actor, event.index, event.time);
      break;
    case kTransferEnds:
      end_transfer(event.index, event.time);
      break;
    default:
      TRIREME_CHECK(false);
  }
}

void StepRun::sample_links(SimTime now) {
  for (std::uint32_t link = 0; link < last_load_.size(); ++link) {
    const double capacity = fabric_.links()[link].capacity.value;
    const double load = capacity > 0 ? flows_.sharing().load(LinkIndex{link}) / capacity : 0;
    if (load != last_load_[link]) {
      last_load_[link] = load;
      samples_.push_back({now, link, load});
    }
  }
}

Simulation StepRun::report() {
  Simulation result;
  result.trace.source = "simulate";
  std::uint64_t done = 0;
  for (std::uint32_t a = 0; a < actors_.size(); ++a) {
    ActorState& state = actors_[a];
    const Actor& actor = grid_.actors()[a];
    account(state, last_);
    done += state.done;
    ActorReport report{actor.rank,          actor.role, actor.ranks, {},
                       state.communication, {},         state.spent};
    report.busy = state.spent[static_cast<std::size_t>(Activity::kCompute)] +
                  state.spent[static_cast<std::size_t>(Activity::kOptimizer)];
    report.exposed_communication =
        (last_ - SimTime{}) - report.busy - state.spent[static_cast<std::size_t>(Activity::kIdle)];
    result.actors.push_back(report);
  }
  if (done < holds_.size()) {
    result.deadlock = deadlock();
  }
  result.step = last_ - SimTime{};
  result.events = events_;
  result.trace.step_times = {result.step};
  result.trace.timings = std::move(timings_);
  for (const Program& role : program_.roles) {
    result.trace.peak_memory.push_back(liveness(program_, role).peak);
  }
  const double step = to_seconds(result.step).value;
  for (std::uint32_t link = 0; link < fabric_.links().size(); ++link) {
    const FabricLink& fabric = fabric_.links()[link];
    const double most = fabric.capacity.value * step;
    result.links.push_back({fabric.name, fabric.capacity, fabric.links,
                            most > 0 ? flows_.carried_bytes(LinkIndex{link}) / most : 0});
  }
  result.samples = std::move(samples_);
  return result;
}

}  // namespace trireme::sim
