#include "topologies/profile.h"

#include <nlohmann/json.hpp>
#include <span>

#include "core/embedded_file.h"
#include "core/json_reader.h"

namespace trireme::topologies {

namespace embedded {
std::span<const core::EmbeddedFile> fitted();
}  // namespace embedded

namespace {

using Constants = std::map<std::string, double>;

Constants read_constants(JsonReader reader, const nlohmann::json& object) {
  Constants constants;
  for (const auto& [key, value] : object.items()) {
    if (key == "source" || key == "note") {
      reader.ignore(key);
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
    groups[name] = read_constants(inner.object(name), value);
  }
  return groups;
}

GpuFit read_gpu(JsonReader reader) {
  GpuFit fit;
  fit.source = reader.text("source");
  fit.measured = reader.boolean("measured");
  fit.compute_capability = static_cast<int>(reader.integer("compute_capability", 1, 10000));
  const nlohmann::json& constants = reader.raw("constants");
  fit.constants = read_constants(JsonReader(constants, reader.where("constants")), constants);
  if (reader.has("matmuls")) {
    for (const nlohmann::json& row : reader.raw("matmuls")) {
      // [m, n, k, TFLOP/s]
      if (!row.is_array() || row.size() != 4) {
        reader.fail("matmuls", "a row is [m, n, k, TFLOP/s]");
      }
      for (const nlohmann::json& number : row) {
        if (!number.is_number() || !(number.get<double>() > 0)) {
          reader.fail("matmuls", "numbers must be positive");
        }
      }
      fit.matmuls.push_back({row[0].get<double>(), row[1].get<double>(), row[2].get<double>(),
                             FlopPerSecond(row[3].get<double>() * 1e12)});
    }
  }
  reader.finish();
  return fit;
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
  const nlohmann::json& gpus = reader.raw("gpus");
  JsonReader inner(gpus, reader.where("gpus"));
  for (const auto& [name, value] : gpus.items()) {
    profile.gpus[name] = read_gpu(inner.object(name));
  }
  profile.networks = read_groups(reader, "networks");
  profile.frameworks = read_groups(reader, "frameworks");
  profile.intervals = read_groups(reader, "intervals");
  reader.ignore("note");
  reader.ignore("machine");
  reader.ignore("points");
  reader.finish();
  return profile;
}

std::string profile_text(const Profile& profile) {
  nlohmann::json json;
  json["schema"] = "trireme.profile/1";
  json["name"] = profile.name;
  for (const auto& [name, fit] : profile.gpus) {
    nlohmann::json& out = json["gpus"][name];
    out["source"] = fit.source;
    out["measured"] = fit.measured;
    out["compute_capability"] = fit.compute_capability;
    out["constants"] = fit.constants;
    for (const MatmulPoint& point : fit.matmuls) {
      out["matmuls"].push_back({point.m, point.n, point.k, point.rate.value / 1e12});
    }
  }
  json["networks"] = profile.networks;
  json["frameworks"] = profile.frameworks;
  json["intervals"] = profile.intervals;
  return json.dump(1) + "\n";
}

const Profile& shipped_profile() {
  static const Profile profile =
      parse_profile(embedded::fitted()[0].content, "shipped profile (topologies/fitted.json)");
  return profile;
}

Profile load_profile(const std::string& path) {
  return parse_profile(read_json_file(path).dump(), path);
}

}  // namespace trireme::topologies
