#include "core/microbenchmarks_json.h"

#include <nlohmann/json.hpp>

#include "core/json_reader.h"
#include "core/kernels.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLongest = 1e6;  // seconds: no micro-benchmark lasts longer
constexpr std::int64_t kLargest = std::int64_t{1} << 50;

// prefix: "" or what the time is of, "forward_".
void put_timing(Json& json, const std::string& prefix, const Timing& timing) {
  json[prefix + "seconds"] = timing.median.value;
  json[prefix + "spread"] = timing.spread;
}

Timing get_timing(JsonReader& reader, const std::string& prefix) {
  Timing timing;
  timing.median = Seconds(reader.number(prefix + "seconds", 0, kLongest));
  if (reader.has(prefix + "spread")) {
    timing.spread = reader.number(prefix + "spread", 0, 1e9);
  }
  return timing;
}

// A time of zero would be an infinite rate.
Timing get_positive(JsonReader& reader, const std::string& prefix) {
  const Timing timing = get_timing(reader, prefix);
  if (timing.median.value <= 0) {
    reader.fail(prefix + "seconds", "must be positive");
  }
  return timing;
}

std::int64_t count(JsonReader& reader, const std::string& key) {
  return reader.integer(key, 1, kLargest);
}

MatmulLayout layout_of(JsonReader& reader) {
  const auto layout = find_matmul_layout(reader.text("layout"));
  if (!layout) {
    reader.fail("layout", "expected forward, input_gradient or weight_gradient");
  }
  return *layout;
}

MatmulPrecision precision_of(JsonReader& reader) {
  if (!reader.has("precision")) {
    return MatmulPrecision::kBf16;
  }
  const std::string name = reader.text("precision");
  const auto precision = find_matmul_precision(name);
  if (!precision) {
    reader.fail("precision", "\"" + name + "\" is none of bf16, fp16 and fp8");
  }
  return *precision;
}

void put_collectives(Json& json, const Microbenchmarks& points) {
  for (const CollectiveSample& sample : points.messages) {
    Json row = {{"bytes", sample.bytes.value}};
    put_timing(row, "", sample.timing);
    json["messages"].push_back(row);
  }
  for (const CollectiveSample& sample : points.collectives) {
    Json row = {
        {"operation", sample.operation}, {"ranks", sample.ranks}, {"bytes", sample.bytes.value}};
    put_timing(row, "", sample.timing);
    json["collectives"].push_back(row);
  }
  for (const OverlapSample& sample : points.overlaps) {
    Json row = {{"operation", sample.operation}};
    put_timing(row, "compute_alone_", sample.compute_alone);
    put_timing(row, "compute_beside_", sample.compute_beside);
    put_timing(row, "collective_alone_", sample.collective_alone);
    put_timing(row, "collective_beside_", sample.collective_beside);
    json["overlaps"].push_back(row);
  }
}

void put_device(Json& json, const Microbenchmarks& points) {
  for (const MatmulSample& sample : points.matmuls) {
    Json row = {{"m", sample.m},
                {"n", sample.n},
                {"k", sample.k},
                {"layout", to_string(sample.layout)},
                {"precision", to_string(sample.precision)}};
    put_timing(row, "", sample.timing);
    json["matmuls"].push_back(row);
  }
  for (const GroupedSample& sample : points.grouped) {
    Json row = {{"experts", sample.experts},
                {"m", sample.m},
                {"n", sample.n},
                {"k", sample.k},
                {"layout", to_string(sample.layout)},
                {"adds", sample.adds}};
    put_timing(row, "", sample.timing);
    json["grouped"].push_back(row);
  }
  for (const AttentionSample& sample : points.attention) {
    Json row = {{"batch", sample.batch},         {"heads", sample.heads},
                {"kv_heads", sample.kv_heads},   {"sequence", sample.sequence},
                {"head_size", sample.head_size}, {"kernel", sample.kernel}};
    put_timing(row, "forward_", sample.forward);
    put_timing(row, "backward_", sample.backward);
    json["attention"].push_back(row);
  }
  for (const PassSample& sample : points.passes) {
    Json row = {{"traffic_bytes", sample.traffic.value}};
    put_timing(row, "", sample.timing);
    json["passes"].push_back(row);
  }
  for (const KernelSample& sample : points.kernels) {
    Json row = {{"kernel", sample.kernel},
                {"rows", sample.rows},
                {"columns", sample.columns},
                {"traffic_bytes", sample.traffic.value}};
    put_timing(row, "", sample.timing);
    json["kernels"].push_back(row);
  }
  for (const CopySample& sample : points.copies) {
    Json row = {{"direction", sample.direction}, {"bytes", sample.bytes.value}};
    put_timing(row, "", sample.timing);
    json["copies"].push_back(row);
  }
}

void get_kernels(JsonReader& reader, Microbenchmarks& points) {
  if (!reader.has("kernels")) {
    return;
  }
  for (JsonReader& row : reader.objects("kernels")) {
    KernelSample sample;
    sample.kernel = row.text("kernel");
    sample.rows = count(row, "rows");
    sample.columns = count(row, "columns");
    sample.traffic = Bytes(count(row, "traffic_bytes"));
    sample.timing = get_positive(row, "");
    row.finish();
    if (!find_kernel(sample.kernel)) {
      row.fail("kernel", "\"" + sample.kernel + "\" is none of core/kernels.h");
    }
    points.kernels.push_back(sample);
  }
}

void get_grouped(JsonReader& reader, Microbenchmarks& points) {
  if (!reader.has("grouped")) {
    return;
  }
  for (JsonReader& row : reader.objects("grouped")) {
    GroupedSample sample;
    // As a profile's table may have them, which is made of these.
    constexpr std::int64_t kExpertsMost = 1'000'000, kExtentMost = 1'000'000'000'000;
    sample.experts = row.integer("experts", 1, kExpertsMost);
    sample.m = row.integer("m", 1, kExtentMost);
    sample.n = row.integer("n", 1, kExtentMost);
    sample.k = row.integer("k", 1, kExtentMost);
    sample.layout = layout_of(row);
    sample.adds = row.boolean("adds");
    sample.timing = get_positive(row, "");
    const double rate = 2.0 * static_cast<double>(sample.experts) * static_cast<double>(sample.m) *
                        static_cast<double>(sample.n) * static_cast<double>(sample.k) /
                        sample.timing.median.value;
    if (!(rate >= 1e6 && rate <= 1e18)) {
      row.fail("seconds", "is the product at a rate of no GPU; 1e-6 to 1e6 TFLOP/s are expected");
    }
    row.finish();
    points.grouped.push_back(sample);
  }
}

void get_device(JsonReader& reader, Microbenchmarks& points) {
  get_grouped(reader, points);
  for (JsonReader& row : reader.objects("matmuls")) {
    MatmulSample sample;
    sample.m = count(row, "m");
    sample.n = count(row, "n");
    sample.k = count(row, "k");
    sample.layout = layout_of(row);
    sample.precision = precision_of(row);
    sample.timing = get_positive(row, "");
    row.finish();
    points.matmuls.push_back(sample);
  }
  for (JsonReader& row : reader.objects("attention")) {
    AttentionSample sample;
    sample.batch = count(row, "batch");
    sample.heads = count(row, "heads");
    sample.kv_heads = count(row, "kv_heads");
    sample.sequence = count(row, "sequence");
    sample.head_size = count(row, "head_size");
    sample.kernel = row.text("kernel");
    sample.forward = get_positive(row, "forward_");
    sample.backward = get_timing(row, "backward_");
    row.finish();
    points.attention.push_back(sample);
  }
  for (JsonReader& row : reader.objects("passes")) {
    points.passes.push_back({Bytes(count(row, "traffic_bytes")), get_positive(row, "")});
    row.finish();
  }
  for (JsonReader& row : reader.objects("copies")) {
    CopySample sample;
    sample.direction = row.text("direction");
    sample.bytes = Bytes(count(row, "bytes"));
    sample.timing = get_positive(row, "");
    row.finish();
    points.copies.push_back(sample);
  }
}

void get_messages(JsonReader& reader, Microbenchmarks& points) {
  if (!reader.has("messages")) {
    return;
  }
  for (JsonReader& row : reader.objects("messages")) {
    CollectiveSample sample{"message", 2, Bytes(count(row, "bytes")), get_positive(row, "")};
    row.finish();
    points.messages.push_back(sample);
  }
}

void get_collectives(JsonReader& reader, Microbenchmarks& points) {
  for (JsonReader& row : reader.objects("collectives")) {
    CollectiveSample sample;
    sample.operation = row.text("operation");
    sample.ranks = row.integer("ranks", 2, 1 << 24);
    sample.bytes = Bytes(count(row, "bytes"));
    sample.timing = get_positive(row, "");
    row.finish();
    points.collectives.push_back(sample);
  }
  for (JsonReader& row : reader.objects("overlaps")) {
    OverlapSample sample;
    sample.operation = row.text("operation");
    sample.compute_alone = get_positive(row, "compute_alone_");
    sample.compute_beside = get_positive(row, "compute_beside_");
    sample.collective_alone = get_positive(row, "collective_alone_");
    sample.collective_beside = get_positive(row, "collective_beside_");
    row.finish();
    points.overlaps.push_back(sample);
  }
}

}  // namespace

std::string_view to_string(MatmulLayout layout) {
  switch (layout) {
    case MatmulLayout::kForward:
      return "forward";
    case MatmulLayout::kInputGradient:
      return "input_gradient";
    case MatmulLayout::kWeightGradient:
      return "weight_gradient";
  }
  return "";
}

std::optional<MatmulLayout> find_matmul_layout(std::string_view name) {
  for (const MatmulLayout layout :
       {MatmulLayout::kForward, MatmulLayout::kInputGradient, MatmulLayout::kWeightGradient}) {
    if (name == to_string(layout)) {
      return layout;
    }
  }
  return std::nullopt;
}

std::string_view to_string(MatmulPrecision precision) {
  switch (precision) {
    case MatmulPrecision::kBf16:
      return "bf16";
    case MatmulPrecision::kFp16:
      return "fp16";
    case MatmulPrecision::kFp8:
      return "fp8";
  }
  return "";
}

std::optional<MatmulPrecision> find_matmul_precision(std::string_view name) {
  for (const MatmulPrecision precision :
       {MatmulPrecision::kBf16, MatmulPrecision::kFp16, MatmulPrecision::kFp8}) {
    if (name == to_string(precision)) {
      return precision;
    }
  }
  return std::nullopt;
}

nlohmann::ordered_json fingerprint_to_json(const MachineFingerprint& machine) {
  return {{"gpu", machine.gpu},
          {"gpus", machine.gpus},
          {"multiprocessors", machine.multiprocessors},
          {"clock_mhz", machine.clock_mhz},
          {"memory_clock_mhz", machine.memory_clock_mhz},
          {"memory_bytes", machine.memory.value},
          {"driver", machine.driver},
          {"cuda", machine.cuda},
          {"nccl", machine.nccl},
          {"cudnn", machine.cudnn}};
}

MachineFingerprint fingerprint_from_json(const nlohmann::json& json, const std::string& where) {
  JsonReader reader(json, where);
  MachineFingerprint machine;
  machine.gpu = reader.text("gpu");
  machine.gpus = reader.integer("gpus", 0, 1 << 24);
  machine.multiprocessors = static_cast<int>(reader.integer("multiprocessors", 0, 100000));
  machine.clock_mhz = reader.number("clock_mhz", 0, 1e6);
  machine.memory_clock_mhz = reader.number("memory_clock_mhz", 0, 1e6);
  machine.memory = Bytes(reader.integer("memory_bytes", 0, kLargest));
  machine.driver = reader.text("driver");
  machine.cuda = reader.text("cuda");
  machine.nccl = reader.text("nccl");
  machine.cudnn = reader.text("cudnn");
  reader.finish();
  return machine;
}

nlohmann::ordered_json microbenchmarks_to_json(const Microbenchmarks& points) {
  Json json = {{"schema", "trireme.microbenchmarks/1"},
               {"machine", fingerprint_to_json(points.machine)}};
  for (const char* key :
       {"matmuls", "attention", "passes", "kernels", "copies", "collectives", "overlaps"}) {
    json[key] = Json::array();
  }
  put_device(json, points);
  put_collectives(json, points);
  json["launch"] = Json::object();
  put_timing(json["launch"], "", points.launch);
  return json;
}

Microbenchmarks microbenchmarks_from_json(const nlohmann::json& json, const std::string& where) {
  JsonReader reader(json, where);
  if (reader.text("schema") != "trireme.microbenchmarks/1") {
    reader.fail("schema", "expected \"trireme.microbenchmarks/1\"");
  }
  Microbenchmarks points;
  points.machine = fingerprint_from_json(reader.raw("machine"), reader.where("machine"));
  get_device(reader, points);
  get_kernels(reader, points);
  get_collectives(reader, points);
  get_messages(reader, points);
  JsonReader launch = reader.object("launch");
  points.launch = get_timing(launch, "");
  launch.finish();
  reader.finish();
  return points;
}

}  // namespace trireme
