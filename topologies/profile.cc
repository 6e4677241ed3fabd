#include "topologies/profile.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "core/embedded_file.h"
#include "core/json_reader.h"
#include "core/kernels.h"
#include "core/microbenchmarks_json.h"
#include "topologies/corrections.h"

namespace trireme::topologies {

namespace embedded {
std::span<const core::EmbeddedFile> fitted();
}  // namespace embedded

namespace {

using Constants = std::map<std::string, double>;

// What a constant of a card or of a framework can be, by what its name says it is: a time, a share
// of a rate, a factor. Network constants are corrections and may be below zero.
std::pair<double, double> range_of(std::string_view name) {
  const auto ends = [name](std::string_view end) {
    return name.size() >= end.size() && name.substr(name.size() - end.size()) == end;
  };
  if (ends("_seconds")) {
    return {0, 10};
  }
  if (ends("_efficiency") || name == "memory_traffic" || name == "attention_rate" ||
      name == "new_card_rate" || name == "product_rate") {
    return {1e-3, 100};
  }
  return {0, 1e15};
}

Constants read_constants(JsonReader reader, const nlohmann::json& object, bool ranged) {
  Constants constants;
  for (const auto& [key, value] : object.items()) {
    if (key == "source" || key == "note") {
      reader.ignore(key);
    } else if (ranged) {
      const auto [low, high] = range_of(key);
      constants[key] = reader.number(key, low, high);
    } else {
      constants[key] = reader.number(key);
    }
  }
  reader.finish();
  return constants;
}

std::map<std::string, Constants> read_groups(JsonReader& reader, const std::string& key) {
  std::map<std::string, Constants> groups;
  if (!reader.has(key)) {
    return groups;
  }
  const nlohmann::json& object = reader.raw(key);
  JsonReader inner(object, reader.where(key));
  for (const auto& [name, value] : object.items()) {
    groups[name] = read_constants(inner.object(name), value, key == "frameworks");
  }
  return groups;
}

// [m, n, k, TFLOP/s], with a layout and a precision after them.
MatmulPoint read_matmul(const JsonReader& reader, const nlohmann::json& row) {
  bool sized = row.is_array() && row.size() >= 4 && row.size() <= 6;
  for (std::size_t i = 4; sized && i < row.size(); ++i) {
    sized = row[i].is_string();
  }
  if (!sized) {
    reader.fail("matmuls",
                "a row is [m, n, k, TFLOP/s], [m, n, k, TFLOP/s, layout] or "
                "[m, n, k, TFLOP/s, layout, precision]");
  }
  for (std::size_t i = 0; i < 4; ++i) {
    if (!row[i].is_number() || !(row[i].get<double>() > 0)) {
      reader.fail("matmuls", "numbers must be positive");
    }
  }
  auto precision = std::optional(MatmulPrecision::kBf16);
  if (row.size() == 6) {
    const auto name = row[5].get<std::string>();
    precision = find_matmul_precision(name);
    if (!precision) {
      reader.fail("matmuls", "the precision \"" + name + "\" is none of bf16, fp16 and fp8");
    }
  }
  return {row[0].get<double>(),
          row[1].get<double>(),
          row[2].get<double>(),
          FlopPerSecond(row[3].get<double>() * 1e12),
          row.size() > 4 ? row[4].get<std::string>() : "",
          *precision};
}

GroupedPoint read_grouped(JsonReader reader) {
  GroupedPoint point;
  point.experts = reader.number("experts", 1, 1e6);
  point.m = reader.number("m", 1, 1e12);
  point.n = reader.number("n", 1, 1e12);
  point.k = reader.number("k", 1, 1e12);
  point.rate = FlopPerSecond(1e12 * reader.number("tflops", 1e-6, 1e6));
  const auto layout = find_matmul_layout(reader.text("layout"));
  if (!layout) {
    reader.fail("layout", "expected forward, input_gradient or weight_gradient");
  }
  point.layout = *layout;
  point.adds = reader.boolean("adds");
  reader.finish();
  return point;
}

AttentionPoint read_attention(JsonReader reader) {
  AttentionPoint point;
  point.batch = reader.integer("batch", 1, 1 << 30);
  point.heads = reader.integer("heads", 1, 1 << 20);
  point.kv_heads = reader.integer("kv_heads", 1, 1 << 20);
  point.sequence = reader.integer("sequence", 1, std::int64_t{1} << 40);
  point.head_size = reader.integer("head_size", 1, 1 << 20);
  point.forward = Seconds(reader.number("forward_seconds", 1e-9, 1e6));
  point.backward = Seconds(reader.number("backward_seconds", 0, 1e6));
  point.portable = reader.boolean("portable");
  reader.finish();
  return point;
}

void read_kernels(JsonReader& reader, GpuFit& fit) {
  const nlohmann::json& kernels = reader.raw("kernels");
  JsonReader inner(kernels, reader.where("kernels"));
  for (const auto& item : kernels.items()) {
    if (!find_kernel(item.key())) {
      inner.fail(item.key(), "no kernel of that name; core/kernels.h lists them");
    }
    JsonReader row = inner.object(item.key());
    fit.kernels[item.key()] = {Seconds(row.number("fixed_seconds", 0, 1e3)),
                               BytesPerSecond(1e9 * row.number("gbytes_per_second", 1e-6, 1e9))};
    row.finish();
  }
}

// `others`: the cards read before, one of which its constants may be like.
GpuFit read_gpu_fit(JsonReader reader, const std::map<std::string, GpuFit>& others) {
  GpuFit fit;
  if (reader.has("like")) {
    const auto other = others.find(reader.text("like"));
    if (other == others.end()) {
      reader.fail("like", "is none of the cards before it");
    }
    fit.constants = other->second.constants;
  }
  fit.source = reader.text("source");
  fit.measured = reader.boolean("measured");
  fit.compute_capability = static_cast<int>(reader.integer("compute_capability", 1, 10000));
  const nlohmann::json& constants = reader.raw("constants");
  for (const auto& [name, value] :
       read_constants(JsonReader(constants, reader.where("constants")), constants, true)) {
    fit.constants[name] = value;
  }
  if (reader.has("matmuls")) {
    for (const nlohmann::json& row : reader.raw("matmuls")) {
      fit.matmuls.push_back(read_matmul(reader, row));
    }
  }
  if (reader.has("grouped")) {
    for (const JsonReader& row : reader.objects("grouped")) {
      fit.grouped.push_back(read_grouped(row));
    }
  }
  if (reader.has("attention")) {
    for (const JsonReader& row : reader.objects("attention")) {
      fit.attention.push_back(read_attention(row));
    }
  }
  if (reader.has("kernels")) {
    read_kernels(reader, fit);
  }
  reader.finish();
  return fit;
}

std::vector<CollectiveTable::Point> read_points(const JsonReader& reader,
                                                const nlohmann::json& rows) {
  std::vector<CollectiveTable::Point> points;
  for (const nlohmann::json& row : rows) {
    const bool pair = row.is_array() && row.size() == 2 && row[0].is_number() && row[1].is_number();
    if (!pair || !(row[0].get<double>() > 0) || !(row[1].get<double>() > 0)) {
      reader.fail("points", "a row is [bytes, seconds], both positive");
    }
    if (!points.empty() && row[0].get<double>() <= points.back().bytes) {
      reader.fail("points", "bytes must ascend");
    }
    points.push_back({row[0].get<double>(), row[1].get<double>()});
  }
  if (points.empty()) {
    reader.fail("points", "is empty");
  }
  return points;
}

CollectiveTable read_collective(JsonReader reader) {
  CollectiveTable table;
  table.operation = reader.text("operation");
  table.gpu = reader.text("gpu");
  table.network = reader.text("network");
  table.ranks = reader.integer("ranks", 2, 1 << 24);
  table.ranks_per_node = reader.integer("ranks_per_node", 1, table.ranks);
  table.source = reader.text("source");
  table.residual = reader.number("residual", 0, 1e9);
  table.points = read_points(reader, reader.raw("points"));
  for (JsonReader& row : reader.objects("regimes")) {
    CollectiveTable::Regime regime;
    regime.up_to_bytes = row.number("up_to_bytes", 0, 1e18);
    regime.latency = Seconds(row.number("latency_seconds", 0, 1e6));
    regime.rate = BytesPerSecond(1e9 * row.number("gbytes_per_second", 0, 1e9));
    row.finish();
    table.regimes.push_back(regime);
  }
  reader.finish();
  return table;
}

// What only a calibrated profile has.
void read_measured(JsonReader& reader, Profile& profile) {
  if (reader.has("machine")) {
    profile.machine = fingerprint_from_json(reader.raw("machine"), reader.where("machine"));
  }
  if (reader.has("topology")) {
    profile.topology = reader.text("topology");
  }
  if (reader.has("collectives")) {
    for (const JsonReader& row : reader.objects("collectives")) {
      profile.collectives.push_back(read_collective(row));
    }
  }
  if (reader.has("overlaps")) {
    for (JsonReader& row : reader.objects("overlaps")) {
      profile.overlaps.push_back({row.text("operation"), row.number("compute_slowdown", -1, 1e3),
                                  row.number("collective_slowdown", -1, 1e3)});
      row.finish();
    }
  }
  if (reader.has("corrections")) {
    JsonReader all = reader.object("corrections");
    for (const char* category : {"compute", "collective", "send_recv", "overlap", "host"}) {
      if (all.has(category)) {
        JsonReader row = all.object(category);
        profile.corrections[category] = {row.number("factor", 1e-3, 1e3),
                                         static_cast<int>(row.integer("runs", 0, 1 << 24)),
                                         row.number("evidence", 0, 1)};
        row.finish();
      }
    }
    all.finish();
  }
  if (reader.has("interval")) {
    JsonReader row = reader.object("interval");
    profile.interval = MeasuredInterval{row.number("low", 1e-3, 1e3), row.number("high", 1e-3, 1e3),
                                        static_cast<int>(row.integer("runs", 1, 1 << 24))};
    row.finish();
  }
  if (reader.has("residuals")) {
    const nlohmann::json& residuals = reader.raw("residuals");
    profile.residuals =
        read_constants(JsonReader(residuals, reader.where("residuals")), residuals, false);
  }
  if (reader.has("points")) {
    profile.points = std::make_shared<const Microbenchmarks>(
        microbenchmarks_from_json(reader.raw("points"), reader.where("points")));
  }
}

// Names and bounds changed once: constants of before would be taken for what they are not, so a
// profile of then keeps its collectives and loses these.
void drop_earlier_networks(Profile& profile) {
  std::erase_if(profile.networks, [](const auto& entry) {
    return entry.second.contains("launch_us") || entry.second.contains("simple_us");
  });
}

void check_networks(const JsonReader& reader, const Profile& profile) {
  for (const auto& [entry, constants] : profile.networks) {
    for (const auto& [name, value] : constants) {
      const std::optional<double> limit = correction_limit(name);
      const std::string which = fmt::format("networks/{}/{}", entry, name);
      if (!limit) {
        reader.fail(which,
                    "is no constant of a fabric or network; `trireme calibrate` writes today's");
      }
      if (!(value >= 0 && value <= *limit)) {
        reader.fail(which, "must be a time of 0 or more, or a share of a line rate up to 1");
      }
    }
  }
}

}  // namespace

Profile parse_profile(std::string_view text, const std::string& where) {
  const nlohmann::json json = parse_json(text, where);
  JsonReader reader(json, where);
  const std::string schema = reader.text("schema");
  if (schema != "trireme.profile/1") {
    reader.fail("schema", "expected \"trireme.profile/1\"");
  }
  Profile profile;
  profile.name = reader.text("name");
  if (reader.has("gpus")) {
    const nlohmann::json& gpus = reader.raw("gpus");
    JsonReader inner(gpus, reader.where("gpus"));
    for (const bool like : {false, true}) {
      for (const auto& item : gpus.items()) {
        if (item.value().is_object() && item.value().contains("like") == like) {
          profile.gpus[item.key()] = read_gpu_fit(inner.object(item.key()), profile.gpus);
        } else if (!item.value().is_object()) {
          inner.object(item.key());  // throws
        }
      }
    }
  }
  profile.networks = read_groups(reader, "networks");
  drop_earlier_networks(profile);
  check_networks(reader, profile);
  profile.frameworks = read_groups(reader, "frameworks");
  profile.intervals = read_groups(reader, "intervals");
  read_measured(reader, profile);
  reader.ignore("note");
  reader.ignore("units");
  reader.finish();
  return profile;
}

const Profile& shipped_profile() {
  static const Profile profile =
      parse_profile(embedded::fitted()[0].content, "shipped profile (topologies/fitted.json)");
  return profile;
}

Profile load_profile(const std::string& path) {
  return with_shipped_parts(parse_profile(read_json_file(path).dump(), path));
}

Profile with_shipped_parts(Profile profile) {
  const Profile& shipped = shipped_profile();
  if (profile.gpus.empty()) {
    profile.gpus = shipped.gpus;
    profile.shipped_parts.emplace_back("gpus");
  }
  for (const auto& [name, constants] : shipped.frameworks) {
    if (profile.frameworks.emplace(name, constants).second) {
      profile.shipped_parts.push_back("framework " + name);
    }
  }
  if (profile.intervals.empty()) {
    profile.intervals = shipped.intervals;
    profile.shipped_parts.emplace_back("intervals");
  }
  return profile;
}

double correction_of(const Profile& profile, const std::string& category) {
  const auto found = profile.corrections.find(category);
  return found == profile.corrections.end() ? 1.0 : found->second.factor;
}

}  // namespace trireme::topologies
