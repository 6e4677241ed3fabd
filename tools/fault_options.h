// What makes ranks and links unlike their neighbours, as people write it: `--straggler 1.2x@rank3`,
// `--slow-link 0.5x@node2.nic1`, `--jitter 0.02`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/faults.h"
#include "tools/program.h"

namespace trireme::tools {

struct FaultOptions {
  std::vector<std::string> stragglers, slow_links;
  std::string jitter, rank_spread;
  std::optional<std::int64_t> seed;
};

void add_fault_options(Command& command, FaultOptions& options);
// Throws Error naming the option and what would be right.
sim::Faults make_faults(const FaultOptions& options);

// "1.2x@rank3", "1.2x@stage2"
sim::Straggler parse_straggler(const std::string& text);
// "0.5x@nics", "0.5x@nic3" (a rail), "0.5x@node2", "0.5x@node2.nic3", "0.5x@nvlink",
// "0.5x@node2.nvlink"
sim::SlowLink parse_slow_link(const std::string& text);
// "1.2x": the number. Throws Error naming `where`.
double parse_factor(const std::string& text, const std::string& where);

}  // namespace trireme::tools
