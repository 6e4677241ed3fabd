// Prints predicted against measured collectives, one line a table: nccl_tests_score [--rows]
// [PROFILE.json].
#include <fmt/format.h>

#include <cstring>
#include <string>

#include "core/error.h"
#include "nccl_tables.h"

namespace {

void print_rows(const trireme::published::NcclTable& table,
                const trireme::topologies::Profile& profile) {
  for (const auto& row : table.rows) {
    const auto time = trireme::topologies::collective_time(table.cluster, profile, table.collective,
                                                           table.group, trireme::Bytes(row.bytes));
    const double seconds = trireme::published::predicted_seconds(table, profile, row.bytes);
    fmt::print("    {:>12} B  measured {:10.2f} us  predicted {:10.2f} us  ratio {:.2f}  {} {}\n",
               row.bytes, row.seconds * 1e6, seconds * 1e6, seconds / row.seconds, time.algorithm,
               time.protocol);
  }
}

std::string percent(const std::optional<double>& value) {
  return value ? fmt::format("{:6.1f} %", 100.0 * *value) : "       -";
}

}  // namespace

int main(int argc, char** argv) try {
  bool rows = false;
  trireme::topologies::Profile profile = trireme::topologies::shipped_profile();
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--rows") == 0) {
      rows = true;
    } else {
      profile = trireme::topologies::load_profile(argv[i]);
    }
  }
  const std::string folder = trireme::published::shared_data_folder();
  if (folder.empty()) {
    fmt::print("no measured tables here: set TRIREME_SHARED_DATA\n");
    return 3;
  }
  for (const auto& table : trireme::published::read_nccl_tables(folder)) {
    const auto error = trireme::published::table_error(table, profile);
    fmt::print("{:<44} {:>3} nodes {:>5} GPUs  {}  >=1MiB {}  <1MiB {}  largest x{:.2f} {}\n",
               table.name, table.cluster.nodes, table.cluster.gpus, table.fitted ? "fit " : "held",
               percent(error.large), percent(error.small), error.ratio_largest, table.set_apart);
    if (rows) {
      print_rows(table, profile);
    }
  }
  return 0;
} catch (const trireme::Error& error) {
  fmt::print(stderr, "trireme: {}\n", error.what());
  return 2;
}
