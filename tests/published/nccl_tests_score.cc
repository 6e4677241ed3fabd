// Prints predicted against measured collectives, one line a table: nccl_tests_score [--rows]
// [PROFILE.json]. nccl_tests_score --fit topologies/networks.json fits the file's constants anew on
// the tables that it names, and prints each with its standard error.
#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "core/error.h"
#include "core/files.h"
#include "nccl_tables.h"
#include "planner/calibrate/correction_fit.h"
#include "topologies/corrections.h"

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

using Json = nlohmann::ordered_json;

std::vector<trireme::planner::CollectiveMeasurement> fitted_measurements(
    const std::vector<trireme::published::NcclTable>& tables) {
  std::vector<trireme::planner::CollectiveMeasurement> measured;
  for (const auto& table : tables) {
    if (table.fitted) {
      auto& one = measured.emplace_back();
      one.cluster = table.cluster;
      one.group = table.group;
      one.collective = table.collective;
      for (const auto& row : table.rows) {
        one.points.push_back({static_cast<double>(row.bytes), row.seconds});
      }
    }
  }
  return measured;
}

// One entry a line, as the file is kept.
std::string text_of(const Json& json) {
  std::string text = "{\n";
  for (const auto& [section, entries] : json.items()) {
    text += fmt::format("{}  \"{}\": ", text.size() > 2 ? ",\n" : "", section);
    if (entries.is_string()) {
      text += entries.dump();
      continue;
    }
    text += entries.is_object() ? "{" : "[";
    std::string between = "\n";
    for (const auto& [name, entry] : entries.items()) {
      text += between + (entries.is_object() ? fmt::format("    \"{}\": ", name) : "    ") +
              entry.dump();
      between = ",\n";
    }
    text += entries.is_object() ? "\n  }" : "\n  ]";
  }
  return text + "\n}\n";
}

double rounded(double value) {
  return std::stod(fmt::format("{:.3g}", value));
}

void fit_networks(const std::string& file, const std::string& folder) {
  Json json = Json::parse(trireme::read_file(file, "the networks' constants"));
  const auto tables = trireme::published::read_nccl_tables(folder);
  const auto fitted = trireme::planner::fitted_corrections(fitted_measurements(tables), {}, true);
  std::set<std::string> cleared;
  for (const auto& one : fitted) {
    fmt::print("{:28} {:24} {:10.4g} +- {:4.1f} %\n", one.entry, one.name, one.value,
               100 * one.standard_error);
    Json& entry =
        json.at(json.at("fabrics").contains(one.entry) ? "fabrics" : "networks").at(one.entry);
    if (cleared.insert(one.entry).second && entry.contains("standard_errors")) {
      const Json before = entry["standard_errors"];
      for (const auto& [name, error] : before.items()) {
        entry.erase(name);
      }
      entry.erase("standard_errors");
    }
    entry[one.name] = rounded(one.value);
    entry["standard_errors"][one.name] = rounded(one.standard_error);
  }
  trireme::write_file_atomically(file, text_of(json));
}

}  // namespace

int main(int argc, char** argv) try {
  bool rows = false;
  trireme::topologies::Profile profile = trireme::topologies::shipped_profile();
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--rows") == 0) {
      rows = true;
    } else if (std::strcmp(argv[i], "--fit") == 0 && i + 1 < argc) {
      fit_networks(argv[++i], trireme::published::shared_data_folder());
      return 0;
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
