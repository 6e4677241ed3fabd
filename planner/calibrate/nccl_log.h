// What the tools of nccl-tests print, read as users have it: whole terminal logs with several
// collectives, banners, launchers' prefixes, old and new columns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::planner {

struct NcclLogRow {
  std::int64_t bytes = 0;
  double seconds = 0;                         // out of place; in place where only that was printed
  double bus_gbytes_per_second = 0;           // as printed
  double in_place_seconds = 0;                // 0: not printed
  double in_place_bus_gbytes_per_second = 0;  // 0: not printed
};

// One run of one tool.
struct NcclLogTable {
  // all_reduce all_gather reduce_scatter all_to_all broadcast send_recv; empty: the log does not
  // say.
  std::string operation;
  std::int64_t ranks = 0, hosts = 0;  // 0: the log does not say
  std::string gpu;                    // of the banner, "NVIDIA H100 80GB HBM3"; may be empty
  std::vector<NcclLogRow> rows;
  bool host_times = false;  // -C: the host's time to enqueue, not the collective's
  std::size_t line = 0;     // where the table starts, 1-based
};

// Tables in order of appearance; lines that belong to none are passed over. Throws Error when there
// is no table at all, or when a row of one cannot be read (with its line).
std::vector<NcclLogTable> parse_nccl_log(std::string_view text, const std::string& where);

// The operation that a command line or title names, as in NcclLogTable; empty: none.
std::string nccl_operation_in(std::string_view text);

}  // namespace trireme::planner
