#include "planner/calibrate/measurement_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>
#include <variant>

#include "core/error.h"
#include "core/files.h"
#include "core/json_reader.h"
#include "core/microbenchmarks_json.h"
#include "planner/calibrate/rccl_results.h"
#include "topologies/measured_collective.h"

namespace trireme::planner {
namespace {

// The group that `ranks` processes on `hosts` hosts make; hosts 0: as the cluster is laid out.
topologies::GroupShape group_of(topologies::Cluster& cluster, std::int64_t ranks,
                                std::int64_t hosts, const std::string& where) {
  const std::int64_t node = cluster.node.gpus;
  // The log may be of more nodes than the cluster was named with, and of fewer GPUs in each.
  std::int64_t per_node = std::min(ranks, node);
  if (hosts > 0 && ranks % hosts == 0 && cluster.node.nvlink_domain <= node) {
    per_node = ranks / hosts;
  }
  if (per_node > node) {
    throw Error(where,
                fmt::format("{} ranks on {} hosts are more than the {} GPUs of a node of {}; "
                            "name the cluster that was measured with --cluster",
                            ranks, hosts, node, cluster.name));
  }
  cluster.nodes = std::max(cluster.nodes, (ranks + per_node - 1) / per_node);
  cluster.gpus = std::max(cluster.gpus, std::min(ranks, cluster.nodes * node));
  topologies::GroupShape group = topologies::group_shape(cluster, ranks, 1);
  if (per_node < std::min(ranks, node)) {
    group.ranks_per_node = per_node;
    group.fewest_per_node = 0;
    group.concurrent_per_node = 1;
  }
  return group;
}

// A log's own card must be the cluster's; one that no preset knows is taken on trust.
void check_card(const NcclLogTable& table, const std::string& where,
                const MeasurementHints& hints) {
  if (table.gpu.empty() || hints.other_card) {
    return;
  }
  std::string measured;
  try {
    measured = topologies::find_gpu(table.gpu, where).name;
  } catch (const Error&) {
    return;
  }
  if (measured != hints.cluster.gpu.name) {
    throw Error(fmt::format("{}:{}", where, table.line),
                fmt::format("was measured on {}, but {} has {}; name the cluster that was measured "
                            "with --cluster, or say --other-card",
                            table.gpu, hints.cluster.name, hints.cluster.gpu.name));
  }
}

void add_table(NcclLogTable table, const std::string& where, const MeasurementHints& hints,
               MeasurementFile& file) {
  check_card(table, where, hints);
  if (table.operation.empty()) {
    table.operation = hints.operation;
  }
  if (table.host_times) {
    file.remarks.push_back(fmt::format(
        "{}:{}: times are of the host (-C, cputime): large sizes may end after they say", where,
        table.line));
  }
  if (table.ranks == 0) {
    table.ranks = hints.ranks.value_or(hints.cluster.gpus);
    file.remarks.push_back(fmt::format("{}:{}: the log has no banner of ranks; {} are taken", where,
                                       table.line, table.ranks));
  }
  const auto collective = topologies::find_collective(table.operation);
  if (!collective || table.ranks < 2) {
    file.remarks.push_back(fmt::format("{}:{}: passed over: {}", where, table.line,
                                       table.ranks < 2 ? "one rank"
                                       : table.operation.empty()
                                           ? "no tool is named (give --op)"
                                           : table.operation + " is not modelled"));
    return;
  }
  CollectiveMeasurement one;
  one.cluster = hints.cluster;
  one.group = group_of(one.cluster, table.ranks, table.hosts, where);
  one.collective = *collective;
  one.source = where;
  for (const NcclLogRow& row : table.rows) {
    const bool in_place = hints.in_place && row.in_place_seconds > 0;
    one.points.push_back(
        {static_cast<double>(row.bytes), in_place ? row.in_place_seconds : row.seconds});
  }
  file.collectives.push_back(std::move(one));
  file.tables.push_back(std::move(table));
}

NcclLogTable json_table(const nlohmann::json& json, const std::string& where) {
  JsonReader reader(json, where);
  NcclLogTable table;
  table.operation = reader.text("collective");
  table.ranks = reader.integer("gpus", 1, 1 << 24);
  table.hosts = reader.has("nodes") ? reader.integer("nodes", 1, 1 << 24) : 0;
  for (JsonReader& row : reader.objects("rows")) {
    NcclLogRow one;
    one.bytes = row.integer("bytes", 1, std::int64_t{1} << 50);
    one.seconds = row.number("time_us", 1e-6, 1e12) * 1e-6;
    one.bus_gbytes_per_second = row.has("busbw") ? row.number("busbw", 0, 1e9) : 0;
    one.in_place_seconds =
        row.has("time_us_inplace") ? row.number("time_us_inplace", 0, 1e12) * 1e-6 : 0;
    one.in_place_bus_gbytes_per_second =
        row.has("busbw_inplace") ? row.number("busbw_inplace", 0, 1e9) : 0;
    table.rows.push_back(one);
  }
  if (table.rows.empty()) {
    reader.fail("rows", "is empty");
  }
  return table;
}

// What nccl-tests' -J writes: {"config": {"devices": [...]}, "results": [{"size", "out_of_place":
// {"time" (us), "bus_bw", "nwrong"}, "in_place"}]}.
NcclLogTable json_results(const nlohmann::json& json, const std::string& where) {
  NcclLogTable table;
  table.line = 1;
  const auto text_of = [](const nlohmann::json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  std::string command;
  for (const char* key : {"args", "arguments", "command", "collective", "coll"}) {
    command += json.contains(key) ? json.at(key).dump() : "";
  }
  table.operation = nccl_operation_in(command);
  if (const auto config = json.find("config"); config != json.end() && config->is_object()) {
    std::set<std::string> hosts;
    const auto devices = config->find("devices");
    if (devices != config->end() && devices->is_array()) {
      for (const nlohmann::json& device : *devices) {
        ++table.ranks;
        if (device.is_object()) {
          hosts.insert(text_of(device, "host") + text_of(device, "hostname"));
          for (const char* key : {"device_info", "name", "device_name", "gpu"}) {
            table.gpu = table.gpu.empty() ? text_of(device, key) : table.gpu;
          }
        }
      }
    }
    hosts.erase("");
    table.hosts = static_cast<std::int64_t>(hosts.size());
    table.host_times = config->contains("report_cputime") && config->at("report_cputime") != 0 &&
                       config->at("report_cputime") != false;
  }
  const nlohmann::json& results = json.at("results");
  if (!results.is_array() || results.empty()) {
    throw Error(where + "#/results", "should be a list of sizes with their times");
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string at = fmt::format("{}#/results/{}", where, i);
    JsonReader row(results[i], at);
    NcclLogRow one;
    one.bytes = row.integer("size", 0, std::int64_t{1} << 50);
    for (const char* place : {"out_of_place", "in_place"}) {
      if (!row.has(place)) {
        continue;
      }
      JsonReader cell = row.object(place);
      const double seconds = cell.has("time") ? cell.number("time", 0, 1e12) * 1e-6 : 0.0;
      const double bus = cell.has("bus_bw") ? cell.number("bus_bw", 0, 1e9) : 0.0;
      const double wrong =
          cell.has("nwrong") && cell.raw("nwrong").is_number() ? cell.number("nwrong") : 0.0;
      if (wrong > 0) {
        throw Error(at, fmt::format("{} values of {} bytes were wrong; times of wrong results are "
                                    "not taken",
                                    wrong, one.bytes));
      }
      const bool first = one.seconds <= 0 && std::string_view(place) == "out_of_place";
      (first ? one.seconds : one.in_place_seconds) = seconds;
      (first ? one.bus_gbytes_per_second : one.in_place_bus_gbytes_per_second) = bus;
    }
    if (one.seconds <= 0) {
      one.seconds = one.in_place_seconds;
    }
    if (one.bytes > 0 && one.seconds > 0) {
      table.rows.push_back(one);
    }
  }
  if (table.rows.empty()) {
    throw Error(where + "#/results", "holds no size with a time");
  }
  return table;
}

// ---- JSON lines

MatmulLayout layout_of(JsonReader& reader) {
  const std::string name = reader.text("layout");
  return name.starts_with("dgrad")   ? MatmulLayout::kInputGradient
         : name.starts_with("wgrad") ? MatmulLayout::kWeightGradient
                                     : MatmulLayout::kForward;
}

// Matrix products in a number format that no profile has a table for.
struct OtherFormat {
  std::string name;
};

// "dtype" or "precision" as PyTorch, NumPy and people write them; without either: bf16.
std::variant<MatmulPrecision, OtherFormat> product_precision(JsonReader& reader) {
  const std::string key = reader.has("precision") ? "precision" : "dtype";
  if (!reader.has(key)) {
    return MatmulPrecision::kBf16;
  }
  std::string name = reader.text(key);
  const std::string whole = name;
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  name = name.substr(name.rfind('.') + 1);  // torch.bfloat16
  constexpr std::pair<std::string_view, MatmulPrecision> kNames[] = {
      {"bf16", MatmulPrecision::kBf16},         {"bfloat16", MatmulPrecision::kBf16},
      {"fp16", MatmulPrecision::kFp16},         {"f16", MatmulPrecision::kFp16},
      {"float16", MatmulPrecision::kFp16},      {"half", MatmulPrecision::kFp16},
      {"fp8", MatmulPrecision::kFp8},           {"float8", MatmulPrecision::kFp8},
      {"fp8_e4m3", MatmulPrecision::kFp8},      {"fp8_e5m2", MatmulPrecision::kFp8},
      {"e4m3", MatmulPrecision::kFp8},          {"e5m2", MatmulPrecision::kFp8},
      {"float8_e4m3fn", MatmulPrecision::kFp8}, {"float8_e5m2", MatmulPrecision::kFp8}};
  for (const auto& [known, precision] : kNames) {
    if (name == known) {
      return precision;
    }
  }
  for (const char* other : {"fp32", "float32", "float", "tf32", "fp64", "float64", "double", "int8",
                            "fp4", "nvfp4", "mxfp4", "mxfp8"}) {
    if (name == other) {
      return OtherFormat{name};
    }
  }
  reader.fail(key, "\"" + whole + "\" is no known precision; bf16, fp16 and fp8 are read");
}

Timing seconds_of(JsonReader& reader, const std::string& key) {
  return {Seconds(reader.number(key, 1e-9, 1e6)), 0};
}

constexpr std::int64_t kMany = std::int64_t{1} << 40;

void add_line(JsonReader reader, MeasurementFile& file, std::map<std::string, int>& unknown) {
  const std::string suite = reader.text("suite");
  Microbenchmarks& points = file.points;
  if (suite == "gemm") {
    const auto precision = product_precision(reader);
    if (const auto* other = std::get_if<OtherFormat>(&precision)) {
      ++unknown["gemm\" in \"" + other->name];
      return;
    }
    points.matmuls.push_back({reader.integer("m", 1, kMany), reader.integer("n", 1, kMany),
                              reader.integer("k", 1, kMany), layout_of(reader),
                              seconds_of(reader, "seconds"), std::get<MatmulPrecision>(precision)});
  } else if (suite == "attn") {
    points.attention.push_back({reader.integer("b", 1, kMany), reader.integer("h", 1, kMany),
                                reader.integer("kv", 1, kMany), reader.integer("s", 1, kMany),
                                reader.integer("d", 1, kMany), seconds_of(reader, "fwd"),
                                seconds_of(reader, "bwd"), reader.text("backend")});
  } else if (suite == "copy") {  // a device-to-device copy reads and writes each byte
    const double mib = reader.number("mib", 1e-3, 1e9);
    points.passes.push_back(
        {Bytes(static_cast<std::int64_t>(2 * mib * (1 << 20))), seconds_of(reader, "seconds")});
  } else if (suite == "coll") {
    points.collectives.push_back({reader.text("op"), reader.integer("world", 2, 1 << 24),
                                  Bytes(reader.integer("bytes", 1, std::int64_t{1} << 50)),
                                  seconds_of(reader, "seconds")});
  } else {
    ++unknown[suite];
  }
}

MeasurementFile json_lines(const std::string& text, const std::string& where,
                           const MeasurementHints& hints) {
  MeasurementFile file;
  file.host_timed = true;
  std::map<std::string, int> unknown;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) {
      continue;
    }
    const std::string at = fmt::format("{}:{}", where, number);
    const nlohmann::json json = parse_json(line, at);
    add_line(JsonReader(json, at), file, unknown);
  }
  for (const auto& [suite, count] : unknown) {
    file.remarks.push_back(
        fmt::format("{}: {} lines of suite \"{}\" passed over", where, count, suite));
  }
  file.points.machine.gpu = hints.cluster.gpu.name;
  file.points.machine.gpus = hints.cluster.gpus;
  file.points.machine.multiprocessors = hints.cluster.gpu.multiprocessors;
  file.points.machine.memory = hints.cluster.gpu.memory;
  return file;
}

}  // namespace

MeasurementFile parse_measurements(const std::string& text, const std::string& where,
                                   const MeasurementHints& hints) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  MeasurementFile file;
  if (first != std::string::npos && text[first] == '{') {
    const std::string line = text.substr(first, text.find('\n', first) - first);
    if (nlohmann::json::accept(line) && line.find("\"suite\"") != std::string::npos) {
      return json_lines(text, where, hints);
    }
    const nlohmann::json json = parse_json(text, where);
    if (json.contains("schema")) {
      file.points = microbenchmarks_from_json(json, where);
      return file;
    }
    if (json.contains("results") && !json.contains("rows")) {
      add_table(json_results(json, where), where, hints, file);
      if (file.collectives.empty()) {
        throw Error(where, file.remarks.back());
      }
      return file;
    }
    if (!json.contains("collective") || !json.contains("rows")) {
      throw Error(where,
                  "is JSON without \"collective\" and \"rows\"; a table of collectives, JSON "
                  "lines of micro-benchmarks or a log of nccl-tests is expected");
    }
    add_table(json_table(json, where), where, hints, file);
  } else {
    const bool list = first != std::string::npos && text[first] == '[' &&
                      text.find("\"busBw\"") != std::string::npos;
    for (NcclLogTable& table : list                ? rccl_json(parse_json(text, where), where)
                               : is_rccl_csv(text) ? rccl_csv(text, where)
                                                   : parse_nccl_log(text, where)) {
      add_table(std::move(table), where, hints, file);
    }
  }
  if (file.collectives.empty()) {
    throw Error(where, "holds no table that can be fitted" +
                           (file.remarks.empty() ? "" : "; " + file.remarks.back()));
  }
  return file;
}

MeasurementFile read_measurements(const std::string& path, const MeasurementHints& hints,
                                  std::size_t most) {
  return parse_measurements(read_file(path, "a file of measurements", most), path, hints);
}

}  // namespace trireme::planner
