// Reading the fields of a Hugging Face config.json: several names for one field, defaults of the
// class that would read it, unknown keys passed over. Every fault is an Error with its key.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/json_reader.h"

namespace trireme::models {

// What transformers' configuration class of a family assumes where the file is silent; 0 = it
// derives the value (kv_heads from heads, head_dim from hidden / heads).
struct ClassDefaults {
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab = 0;
  std::int64_t max_sequence = 2048;
  bool tied = false;
};

// More than these no file may say.
inline constexpr std::int64_t kCountMax = 1'000'000'000;
inline constexpr std::int64_t kLayersMax = 100'000;
inline constexpr std::size_t kListMax = 100'000;

class ConfigFields {
 public:
  using Names = std::initializer_list<const char*>;

  // `nested`: the text part of a larger model's file, where whatever equals the class default is
  // left out; at the top level the main dimensions must be there. `json` must outlive this.
  ConfigFields(const nlohmann::json& json, const std::string& where, bool nested);

  [[nodiscard]] bool has(Names names) const;
  // True also when the key is there and null, which is not the same as absent for some families.
  [[nodiscard]] bool mentions(const char* name) const;
  [[nodiscard]] bool is_text(const char* name) const;
  [[nodiscard]] bool is_list(const char* name) const;
  [[nodiscard]] bool nested() const { return nested_; }
  [[nodiscard]] const nlohmann::json& json() const { return *json_; }
  [[nodiscard]] const std::string& where() const { return where_; }
  // A main dimension, at least 1.
  std::int64_t dimension(Names names, std::int64_t class_default = 0);
  // As dimension, bounded so that a list with one entry a layer stays small.
  std::int64_t layer_count(Names names, std::int64_t class_default = 0);
  // Absent or null: `fallback`.
  std::int64_t count_or(Names names, std::int64_t fallback, std::int64_t low = 1);
  bool flag(const char* name, bool fallback);
  // As flag, where files also write the number 0 or another one.
  bool truth(const char* name, bool fallback);
  double number_or(const char* name, double fallback);
  std::string text_or(const char* name, const std::string& fallback);
  std::vector<std::int64_t> indices(const char* name);
  std::vector<std::string> texts(const char* name);
  ConfigFields object(const char* name);
  [[noreturn]] void fail(const char* name, const std::string& what) const;

 private:
  const nlohmann::json* json_;
  std::string where_;
  JsonReader reader_;
  bool nested_;
};

// hidden / heads, or the file's own head_dim (or the class's). Error when it does not divide.
std::int64_t head_dimension(ConfigFields& fields, std::int64_t hidden, std::int64_t heads,
                            std::int64_t class_default);

}  // namespace trireme::models
