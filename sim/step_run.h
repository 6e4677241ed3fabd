// One run of a step program: the state of every actor, and what each event does to it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/op_times.h"
#include "core/program.h"
#include "sim/actors.h"
#include "sim/channels.h"
#include "sim/event_queue.h"
#include "sim/fabric.h"
#include "sim/flow_set.h"
#include "sim/simulate.h"

namespace trireme::sim {

constexpr std::uint16_t kEnded = 0xffff;  // in place of a count of what an op waits for

class StepRun {
 public:
  StepRun(const StepProgram& program, const StepTimes& times, const topologies::Cluster& cluster,
          const SimulateOptions& options);
  Simulation run();

 private:
  enum Kind : std::uint32_t { kOpEnds, kOpIssued, kTransferEnds };
  struct Running {  // a compute op that a collective may slow down
    std::uint32_t op = 0;
    double left = 0;       // picoseconds at full speed
    double stretched = 1;  // times as long beside a collective
    SimTime since, end;
  };
  struct ActorState {
    std::uint64_t first_op = 0;  // of its ops in holds_, timings_
    std::uint32_t done = 0;
    std::array<std::uint32_t, kActivities> active{};  // ops under way
    Activity now = Activity::kIdle;                   // what its time goes into
    std::uint32_t communicating = 0, collectives = 0;
    SimTime changed;
    std::array<SimDuration, kActivities> spent{};
    SimDuration communication;
    std::vector<Running> running;  // only with a slow-down
  };
  struct LoadedLinks {  // a channel's loads, found when it is first used
    bool known = false;
    std::vector<Load> loads;
  };

  [[nodiscard]] const RolePlan& plan_of(std::uint32_t actor) const {
    return roles_[index_of(grid_.actors()[actor].role)];
  }
  void hold_all();
  void release(std::uint32_t actor, std::uint32_t op, SimTime now);    // one thing less to wait for
  void when_free(std::uint32_t actor, std::uint32_t op, SimTime now);  // waits and stream are over
  void ready(std::uint32_t actor, std::uint32_t op, SimTime now);
  void end_op(std::uint32_t actor, std::uint32_t op, SimTime now);
  static void account(ActorState& state, SimTime now);
  static void begin_activity(ActorState& state, Activity activity, SimTime now);
  static void end_activity(ActorState& state, Activity activity, SimTime now);

  void start_compute(std::uint32_t actor, std::uint32_t op, SimTime now);
  void end_compute(std::uint32_t actor, std::uint32_t op, SimTime now);
  void change_speed(std::uint32_t actor, SimTime now, bool slow);
  [[nodiscard]] double compute_factor(std::uint32_t actor, std::uint32_t op) const;

  void arrive(std::uint32_t actor, const RoleOp& op, SimTime now);
  void begin_transfer(std::uint32_t channel, std::uint32_t place, SimTime now);
  bool begin_flow(std::uint32_t channel, std::uint32_t place, SimDuration alone, SimTime now);
  void end_transfer(std::uint32_t transfer, SimTime now);
  [[nodiscard]] double wire_bytes(const Channel& channel, std::uint32_t place,
                                  bool& all_to_all) const;

  void handle(const Event& event);
  void sample_links(SimTime now);
  [[nodiscard]] std::string deadlock() const;
  void describe_blocked(std::uint32_t actor, std::string& text) const;
  [[nodiscard]] std::string what_it_waits_for(std::uint32_t actor, std::uint32_t op) const;
  Simulation report();

  const StepProgram& program_;
  const SimulateOptions& options_;
  ActorGrid grid_;
  std::vector<RolePlan> roles_;
  Meetings meetings_;
  FlowSet flows_;
  Fabric fabric_;
  EventQueue queue_;
  std::vector<ActorState> actors_;
  std::vector<std::uint16_t>
      holds_;  // by actor and op: what must end before it is ready; kEnded after its end
  std::vector<std::uint32_t> arrived_;                  // by transfer: participants that are ready
  std::vector<std::uint32_t> channel_of_;               // by transfer
  std::vector<LoadedLinks> ring_loads_, spread_loads_;  // by channel
  std::vector<LinkUse> uses_;
  std::vector<OpTiming> timings_;
  std::vector<LinkSample> samples_;
  std::vector<double> last_load_;
  std::uint64_t events_ = 0;
  SimTime last_;
};

}  // namespace trireme::sim
