// Collective times against measured tables that no constant was fitted on: the median over tables
// of each table's median error, single node and several nodes apart.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "nccl_tables.h"
#include "topologies/corrections.h"

namespace trireme::published {
namespace {

class NcclTables : public testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = shared_data_folder();
    if (folder.empty()) {
      GTEST_SKIP() << "the measured tables are not here (../shared/data or TRIREME_SHARED_DATA)";
    }
    tables_ = read_nccl_tables(folder);
  }
  std::vector<NcclTable> tables_;
};

TEST_F(NcclTables, FittedAndScoredAreDisjoint) {
  const auto& fitted = topologies::fitted_tables();
  const std::set<std::string> unique(fitted.begin(), fitted.end());
  EXPECT_EQ(unique.size(), fitted.size());
  std::size_t held = 0;
  for (const NcclTable& table : tables_) {
    EXPECT_EQ(table.fitted, unique.contains(table.name)) << table.name;
    EXPECT_FALSE(table.fitted && !table.set_apart.empty())
        << table.name << " is faulty, yet fitted";
    held += table.fitted ? 0U : 1U;
  }
  // At least half of the tables are kept apart.
  EXPECT_GE(2 * held, tables_.size());
}

TEST_F(NcclTables, HeldApartMedians) {
  std::vector<double> large[2];
  std::vector<double> small[2];
  for (const NcclTable& table : tables_) {
    const TableError error = table_error(table, topologies::shipped_profile());
    const std::size_t several = table.cluster.nodes > 1 ? 1U : 0U;
    if (!table.set_apart.empty()) {
      fmt::print("{:<44} bandwidth measured / expected {:.2f}: {}\n", table.name,
                 error.ratio_largest, table.set_apart);
      continue;
    }
    if (table.fitted) {
      continue;
    }
    fmt::print("{:<44} {:>3} nodes  >=1MiB {:5.1f} %  <1MiB {:5.1f} %\n", table.name,
               table.cluster.nodes, 100.0 * error.large.value_or(0.0),
               100.0 * error.small.value_or(0.0));
    if (error.large) {
      large[several].push_back(*error.large);
    }
    if (error.small) {
      small[several].push_back(*error.small);
    }
  }
  fmt::print(
      "median of held-apart tables: one node {:.1f} % at 1 MiB and up ({} tables), {:.1f} % below "
      "({}); several "
      "nodes {:.1f} % ({})\n",
      100.0 * median(large[0]), large[0].size(), 100.0 * median(small[0]), small[0].size(),
      100.0 * median(large[1]), large[1].size());
  EXPECT_LE(median(large[0]), 0.15);
  EXPECT_LE(median(large[1]), 0.15);
  EXPECT_LE(median(small[0]), 0.30);
}

}  // namespace
}  // namespace trireme::published
