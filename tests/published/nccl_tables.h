// The measured nccl-tests tables of ../shared/data (not part of this project): read, matched to a
// cluster, and compared with collective_time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/published/shared_data.h"
#include "topologies/collective_cost.h"

namespace trireme::published {

struct NcclTable {
  std::string name;     // the file's, without .json
  std::string machine;  // tables of one machine are fitted or scored together
  topologies::Cluster cluster;
  topologies::GroupShape group;
  topologies::Collective collective = topologies::Collective::kAllReduce;
  struct Row {
    std::int64_t bytes = 0;
    double seconds = 0.0;
  };
  std::vector<Row> rows;
  std::string set_apart;  // why its error does not count: a known fault, or a system that the text
                          // does not describe
  bool fitted = false;
};

struct TableError {
  std::optional<double> large;  // median absolute relative error at 1 MiB and up
  std::optional<double> small;  // below
  double ratio_largest = 0.0;   // predicted over measured time of the largest size
};

std::vector<NcclTable> read_nccl_tables(const std::string& folder);
TableError table_error(const NcclTable& table, const topologies::Profile& profile);
// Predicted seconds of one size.
double predicted_seconds(const NcclTable& table, const topologies::Profile& profile,
                         std::int64_t bytes);
double median(std::vector<double> values);

}  // namespace trireme::published
