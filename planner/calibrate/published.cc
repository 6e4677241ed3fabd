#include "planner/calibrate/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/files.h"
#include "core/json_reader.h"
#include "planner/calibrate/measurement_file.h"
#include "planner/calibrate/row_words.h"

namespace trireme::planner {

namespace {

using nlohmann::json;

constexpr double kLargest = 1e15;
constexpr double kSmallest = 1e-12;
constexpr double kLargestCount = 1e9;  // of layers, tokens, GPUs: two of them multiply in 64 bits

// One row being read: a wrong type is remembered as the row's fault, and every key asked for counts
// as known.
class RowReader {
 public:
  RowReader(const json& object, std::set<std::string>& known) : object_(object), known_(known) {}

  void integer(const char* key, std::optional<std::int64_t>& out) {
    double value = 0;
    if (number_in(key, kLargestCount, value)) {
      if (value != std::floor(value)) {
        fail(key, "a whole number");
      } else {
        out = static_cast<std::int64_t>(value);
      }
    }
  }
  void integer(const char* key, std::int64_t& out) {
    std::optional<std::int64_t> value;
    integer(key, value);
    out = value.value_or(out);
  }
  void number(const char* key, std::optional<double>& out) {
    double value = 0;
    if (number_in(key, kLargest, value)) {
      out = value;
    }
  }
  // What was measured: nothing takes no time.
  void measured(const char* key, std::optional<double>& out) {
    std::optional<double> value;
    number(key, value);
    if (value && *value < kSmallest) {
      fail(key, "more than 0");
    } else if (value) {
      out = value;
    }
  }
  void number(const char* key, double& out) {
    std::optional<double> value;
    number(key, value);
    out = value.value_or(out);
  }
  void boolean(const char* key, std::optional<bool>& out) {
    if (const json* value = find(key)) {
      if (value->is_boolean()) {
        out = value->get<bool>();
      } else {
        fail(key, "true or false");
      }
    }
  }
  void text(const char* key, std::string& out) {
    if (const json* value = find(key)) {
      if (value->is_string()) {
        out = value->get<std::string>();
      } else {
        fail(key, "a text");
      }
    }
  }
  // The largest of a list of numbers, one a rank.
  void largest(const char* key, std::optional<double>& out) {
    const json* values = find(key);
    for (std::size_t i = 0; values != nullptr && values->is_array() && i < values->size(); ++i) {
      const json& value = (*values)[i];
      if (value.is_number() && value.get<double>() >= 0 && value.get<double>() < kLargest) {
        out = std::max(out.value_or(0), value.get<double>());
      }
    }
  }
  const json* object(const char* key) {
    const json* value = find(key);
    if (value != nullptr && !value->is_object()) {
      fail(key, "an object");
      return nullptr;
    }
    return value;
  }
  const json* find(const char* key) {
    known_.insert(key);
    const auto at = object_.find(key);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }
  void fail(const std::string& key, const std::string& right) {
    if (fault.empty()) {
      fault = fmt::format("{} should be {}", key, right);
    }
  }
  std::string fault;

 private:
  bool number_in(const char* key, double most, double& out) {
    const json* value = find(key);
    if (value == nullptr) {
      return false;
    }
    if (!value->is_number() || !(value->get<double>() >= 0)) {
      fail(key, "a number of 0 or more");
      return false;
    }
    if (value->get<double>() > most) {
      fail(key, fmt::format("at most {:g}", most));
      return false;
    }
    out = value->get<double>();
    return true;
  }

  const json& object_;
  std::set<std::string>& known_;
};

void read_latent(const json& object, PublishedRow& row, std::string& fault) {
  std::set<std::string> known;
  RowReader reader(object, known);
  models::LatentAttention latent;
  reader.integer("q_lora", latent.q_lora);
  reader.integer("kv_lora", latent.kv_lora);
  reader.integer("qk_nope", latent.qk_nope);
  reader.integer("qk_rope", latent.qk_rope);
  reader.integer("v_head", latent.v_head);
  row.latent = latent;
  if (fault.empty()) {
    fault = reader.fault;
  }
}

void read_moe(const json& object, PublishedRow& row, std::string& fault,
              std::set<std::string>& unknown) {
  std::set<std::string> known = {"dispatcher", "grouped_gemm"};
  RowReader reader(object, known);
  models::MixtureOfExperts moe;
  reader.integer("experts", moe.experts);
  reader.integer("topk", moe.experts_per_token);
  reader.integer("moe_ffn", moe.expert_ffn);
  reader.integer("shared_ffn", moe.shared_ffn);
  reader.integer("moe_layers", row.moe_layers);
  reader.integer("sliding_window", row.sliding_window);
  reader.integer("sliding_layers", row.sliding_layers);
  reader.number("capacity_factor", moe.capacity_factor);
  std::optional<bool> padded;
  reader.boolean("pad_to_capacity", padded);
  row.pad_to_capacity = padded.value_or(false);
  if (const json* latent = reader.object("mla")) {
    read_latent(*latent, row, reader.fault);
  }
  row.moe = moe;
  if (fault.empty()) {
    fault = reader.fault;
  }
  for (const auto& [key, value] : object.items()) {
    if (!known.contains(key)) {
      unknown.insert("moe." + key);
    }
  }
}

void read_settings(const json& object, PublishedRow& row, RowReader& outer) {
  for (const auto& [key, value] : object.items()) {
    if (key == "stage_layers") {
      if (!value.is_array()) {
        outer.fail("settings.stage_layers", "an array of layer counts");
        continue;
      }
      for (const json& layers : value) {
        if (!layers.is_number_integer() || layers.get<double>() < 0 ||
            layers.get<double>() > kLargestCount) {
          outer.fail("settings.stage_layers", "an array of layer counts");
          break;
        }
        row.stage_layers.push_back(layers.get<std::int64_t>());
      }
    } else if (key == "shard_degree") {
      // Rows print it as a text; the row's own field wins.
      const std::string digits = value.is_string() ? value.get<std::string>() : value.dump();
      const auto degree = std::strtoll(digits.c_str(), nullptr, 10);
      if (degree > 0 && !row.shard_degree) {
        row.shard_degree = degree;
      }
    } else {
      row.settings.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
}

void read_shape(RowReader& reader, PublishedRow& row, std::set<std::string>& unknown) {
  reader.text("model", row.model);
  reader.integer("layers", row.layers);
  reader.integer("hidden", row.hidden);
  reader.integer("ffn", row.ffn);
  reader.integer("heads", row.heads);
  reader.integer("kv_heads", row.kv_heads);
  reader.integer("head_dim", row.head_dim);
  reader.integer("vocab", row.vocab);
  reader.integer("seq", row.seq);
  reader.boolean("gated_mlp", row.gated_mlp);
  reader.boolean("tied_embeddings", row.tied_embeddings);
  if (const json* moe = reader.object("moe")) {
    read_moe(*moe, row, reader.fault, unknown);
  }
}

void read_layout(RowReader& reader, PublishedRow& row) {
  reader.text("gpu", row.gpu);
  reader.text("cluster", row.cluster);
  reader.integer("gpus", row.gpus);
  reader.integer("gpus_per_node", row.gpus_per_node);
  reader.integer("tp", row.tp);
  reader.integer("pp", row.pp);
  reader.integer("vpp", row.vpp);
  reader.integer("cp", row.cp);
  reader.integer("ep", row.ep);
  reader.integer("etp", row.etp);
  reader.integer("data_parallel", row.data_parallel);
  reader.integer("shard_degree", row.shard_degree);
  reader.boolean("sequence_parallel", row.sequence_parallel);
  reader.text("sharding", row.sharding);
  reader.text("schedule", row.schedule);
  reader.integer("micro_batch", row.micro_batch);
  reader.integer("global_batch", row.global_batch);
  reader.integer("micro_batches", row.micro_batches);
  reader.text("precision", row.precision);
  reader.text("precision_detail", row.precision_detail);
  reader.text("recompute", row.recompute);
  reader.text("recompute_detail", row.recompute_detail);
  reader.text("attention", row.attention);
  reader.text("behaviour", row.behaviour);
  reader.text("framework", row.framework);
  if (const json* settings = reader.object("settings")) {
    read_settings(*settings, row, reader);
  }
}

void read_results(RowReader& reader, PublishedRow& row) {
  reader.measured("seconds_per_step", row.seconds_per_step);
  reader.measured("tokens_per_s_per_gpu", row.tokens_per_s_per_gpu);
  reader.measured("tflops_per_gpu", row.tflops_per_gpu);
  reader.measured("mfu", row.mfu);
  reader.measured("hfu", row.hfu);
  reader.measured("peak_memory_gib", row.peak_memory_gib);
  reader.largest("peak_reserved_gib_by_rank", row.peak_reserved_gib);
  reader.text("memory_kind", row.memory_kind);
  reader.text("memory_scope", row.memory_scope);
  reader.text("memory_detail", row.memory_detail);
  reader.text("outcome", row.outcome);
  reader.text("notes", row.notes);
  reader.text("date", row.date);
}

// Keys that describe a row and that no model reads.
constexpr const char* kAnnotations[] = {"source", "derived", "peak_allocated_gib_by_rank"};

PublishedRow read_row(const json& object, std::size_t index, const std::string& name,
                      std::set<std::string>& unknown) {
  PublishedRow row;
  row.source = name;
  row.id = fmt::format("{}#{}", name, index);
  if (!object.is_object()) {
    row.unreadable = "the row is not an object";
    return row;
  }
  std::set<std::string> known(std::begin(kAnnotations), std::end(kAnnotations));
  const json spelt = with_words_read(object);
  RowReader reader(spelt, known);
  reader.text("id", row.id);
  read_shape(reader, row, unknown);
  read_layout(reader, row);
  if (const json* offload = reader.object("offload")) {
    const std::string fault = read_offload(*offload, row.offload.emplace(), unknown);
    reader.fault = reader.fault.empty() ? fault : reader.fault;
  }
  if (const json* finetune = reader.object("finetune")) {
    const std::string fault = read_finetune(*finetune, row.finetune.emplace(), unknown);
    reader.fault = reader.fault.empty() ? fault : reader.fault;
  }
  read_results(reader, row);
  row.unreadable = reader.fault;
  for (const auto& [key, value] : spelt.items()) {
    if (!known.contains(key)) {
      unknown.insert(key);
    }
  }
  return row;
}

}  // namespace

PublishedFile parse_published(const std::string& text, const std::string& name) {
  const json parsed = parse_json(text, name);
  const json* rows = &parsed;
  if (parsed.is_object()) {
    const auto at = parsed.find("rows");
    if (at == parsed.end()) {
      throw Error(name, "has no \"rows\"; {\"rows\": [{...}, ...]} would be right");
    }
    rows = &*at;
  }
  if (!rows->is_array()) {
    throw Error(name + "#/rows", "is not an array of rows");
  }
  PublishedFile file;
  file.name = std::filesystem::path(name).stem().string();
  std::set<std::string> unknown;
  std::size_t index = 0;
  for (const json& object : *rows) {
    file.rows.push_back(read_row(object, index++, file.name, unknown));
  }
  file.unknown_keys.assign(unknown.begin(), unknown.end());
  return file;
}

std::vector<PublishedFile> read_published(const std::string& file_or_folder) {
  namespace fs = std::filesystem;
  std::error_code failure;
  std::vector<fs::path> paths;
  if (fs::is_directory(file_or_folder, failure)) {
    for (const auto& entry : fs::directory_iterator(file_or_folder)) {
      if (entry.path().extension() == ".json") {
        paths.push_back(entry.path());
      }
    }
    std::sort(paths.begin(), paths.end());
    if (paths.empty()) {
      throw Error(file_or_folder, "holds no .json file of rows");
    }
  } else if (fs::exists(file_or_folder, failure)) {
    paths.emplace_back(file_or_folder);
  } else {
    throw Error(file_or_folder, "does not exist; a file or folder of rows would be right");
  }
  std::vector<PublishedFile> files;
  files.reserve(paths.size());
  for (const fs::path& path : paths) {
    files.push_back(parse_published(
        read_file(path.string(), "a file of measured rows", kMeasurementsMost), path.string()));
  }
  return files;
}

}  // namespace trireme::planner
