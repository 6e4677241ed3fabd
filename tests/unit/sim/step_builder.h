// Small step programs written by hand, with their ops' durations beside them.
#pragma once

#include <string>
#include <vector>

#include "core/op_times.h"
#include "core/program.h"
#include "topologies/cluster.h"

namespace trireme::sim {

constexpr std::int64_t kMicrosecond = 1'000'000;  // in picoseconds
constexpr std::int64_t us = kMicrosecond;

class StepBuilder {
 public:
  // `stages` roles of ranks / stages ranks each, stage by stage.
  StepBuilder(std::int64_t ranks, std::int64_t stages) {
    program.ranks = ranks;
    program.stages = {.degree = stages, .stride = ranks / stages, .period = ranks};
    program.roles.resize(static_cast<std::size_t>(stages));
    times.roles.resize(program.roles.size());
    for (Program& role : program.roles) {
      role.streams = {"compute", "first", "second", "third", "fourth"};
      role.buffers.push_back({.name = 0, .elements = std::int64_t{1} << 40, .persistent = true});
      role.names.push_back("buffer");
    }
  }

  GroupId group(const std::string& name, std::int64_t degree, std::int64_t stride) {
    program.groups.push_back(
        {name, {{.degree = degree, .stride = stride, .period = degree * stride}}});
    return static_cast<GroupId>(program.groups.size() - 1);
  }

  // Appends an op to a role; returns its id. `bytes` of one operand, the same for input and output.
  OpId add(std::size_t role, const OpKind& kind, int stream, std::int64_t duration,
           const std::vector<OpId>& waits = {}, std::int64_t bytes = 0, std::int64_t launch = 0) {
    Program& mine = program.roles[role];
    Op op;
    op.kind = kind;
    op.stream = static_cast<StreamId>(stream);
    op.waits = {static_cast<std::uint32_t>(mine.waits.size()),
                static_cast<std::uint32_t>(waits.size())};
    mine.waits.insert(mine.waits.end(), waits.begin(), waits.end());
    op.operands = {static_cast<std::uint32_t>(mine.operands.size()), bytes > 0 ? 1U : 0U};
    if (bytes > 0) {
      mine.operands.push_back({.buffer = BufferId{0}, .count = bytes / program.widths.compute});
    }
    op.name = static_cast<std::uint32_t>(mine.names.size());
    mine.names.push_back("op" + std::to_string(mine.ops.size()));
    mine.ops.push_back(op);
    times.roles[role].push_back({SimDuration(duration), SimDuration(launch)});
    return static_cast<OpId>(mine.ops.size() - 1);
  }

  StepProgram program;
  StepTimes times;
};

// Eight GPUs a node with NVLink of 400 GB/s and eight NICs of 50 GB/s, all on one set of leaves.
inline topologies::Cluster eight_gpu_nodes(std::int64_t nodes) {
  topologies::Cluster cluster;
  cluster.name = "test";
  cluster.node.gpus = 8;
  cluster.node.nvlink_domain = 8;
  cluster.node.nvlink_per_gpu = BytesPerSecond(400e9);
  cluster.node.pcie_per_gpu = BytesPerSecond(63e9);  // of which 53.6 carry, more than the NIC
  cluster.node.nics = 8;
  cluster.node.nic = BytesPerSecond(50e9);
  cluster.network.nodes_per_unit = 1024;
  cluster.nodes = nodes;
  cluster.gpus = nodes * 8;
  return cluster;
}

}  // namespace trireme::sim
