#include "models/config_fields.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace trireme::models {
ConfigFields::ConfigFields(const nlohmann::json& json, const std::string& where, bool nested)
    : json_(&json), where_(where), reader_(json, where), nested_(nested) {}

bool ConfigFields::has(Names names) const {
  for (const char* name : names) {
    if (reader_.has(name)) {
      return true;
    }
  }
  return false;
}

bool ConfigFields::mentions(const char* name) const {
  return json_->contains(name);
}

void ConfigFields::fail(const char* name, const std::string& what) const {
  reader_.fail(name, what);
}

bool ConfigFields::is_text(const char* name) const {
  return has({name}) && json_->at(name).is_string();
}
bool ConfigFields::is_list(const char* name) const {
  return has({name}) && json_->at(name).is_array();
}

std::int64_t ConfigFields::dimension(Names names, std::int64_t class_default) {
  for (const char* name : names) {
    if (reader_.has(name)) {
      return reader_.integer(name, 1, kCountMax);
    }
  }
  if (nested_ && class_default > 0) {
    return class_default;
  }
  fail(*names.begin(), "is missing; a model needs it");
}

std::int64_t ConfigFields::layer_count(Names names, std::int64_t class_default) {
  const std::int64_t layers = dimension(names, class_default);
  if (layers > kLayersMax) {
    fail(*names.begin(), fmt::format("is {}; it must be at most {}", layers, kLayersMax));
  }
  return layers;
}

std::int64_t ConfigFields::count_or(Names names, std::int64_t fallback, std::int64_t low) {
  for (const char* name : names) {
    if (reader_.has(name)) {
      return reader_.integer(name, low, kCountMax);
    }
  }
  return fallback;
}

bool ConfigFields::flag(const char* name, bool fallback) {
  return reader_.has(name) ? reader_.boolean(name) : fallback;
}

bool ConfigFields::truth(const char* name, bool fallback) {
  if (!reader_.has(name) || reader_.raw(name).is_boolean()) {
    return flag(name, fallback);
  }
  return reader_.number(name) != 0;
}

double ConfigFields::number_or(const char* name, double fallback) {
  return reader_.has(name) ? reader_.number(name, -1e12, 1e12) : fallback;
}

std::string ConfigFields::text_or(const char* name, const std::string& fallback) {
  return reader_.has(name) ? reader_.text(name) : fallback;
}

std::vector<std::int64_t> ConfigFields::indices(const char* name) {
  std::vector<std::int64_t> values;
  if (!reader_.has(name)) {
    return values;
  }
  const nlohmann::json& list = reader_.raw(name);
  if (!list.is_array() || list.size() > kListMax) {
    fail(name, "must be a list of layer numbers");
  }
  for (const nlohmann::json& value : list) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kCountMax) {
      fail(name, "must be a list of layer numbers");
    }
    values.push_back(value.get<std::int64_t>());
  }
  return values;
}

std::vector<std::string> ConfigFields::texts(const char* name) {
  std::vector<std::string> values;
  if (!reader_.has(name)) {
    return values;
  }
  const nlohmann::json& list = reader_.raw(name);
  if (!list.is_array() || list.size() > kListMax) {
    fail(name, "must be a list of names");
  }
  for (const nlohmann::json& value : list) {
    if (!value.is_string()) {
      fail(name, "must be a list of names");
    }
    values.push_back(value.get<std::string>());
  }
  return values;
}

ConfigFields ConfigFields::object(const char* name) {
  return ConfigFields(reader_.raw(name), reader_.where(name), nested_);
}

std::int64_t head_dimension(ConfigFields& fields, std::int64_t hidden, std::int64_t heads,
                            std::int64_t class_default) {
  if (fields.has({"head_dim"})) {
    return fields.count_or({"head_dim"}, 0);
  }
  if (class_default > 0) {
    return class_default;
  }
  if (hidden % heads != 0) {
    fields.fail("num_attention_heads",
                fmt::format("is {}, which does not divide the hidden size {}; give head_dim, or a "
                            "number of heads that divides it",
                            heads, hidden));
  }
  return hidden / heads;
}

}  // namespace trireme::models
