// Every field of models/function.h as a row: its name in a model file, the names that
// config.json files have for it, and which values there are. A new field is a member and a row
// here, and a row in planner/launch/function_spellings.cc.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "models/function.h"

namespace trireme {
class JsonReader;
}
namespace trireme::models {

class ConfigFields;
struct Transformer;

using FunctionMember = std::variant<double Function::*, std::int64_t Function::*, bool Function::*,
                                    std::string Function::*, std::vector<double> Function::*,
                                    std::vector<std::int64_t> Function::*>;

struct FunctionField {
  const char* key;
  FunctionMember member;
  // In a config.json; the first that is there counts. Empty: a family's reader says it.
  std::array<const char*, 4> config_keys = {};
  const char* words = "";  // of a text: the values there are, each between blanks
};
std::span<const FunctionField> function_fields();
// The row with this key. Requires: there is one.
const FunctionField& function_field(const std::string& key);

bool same_value(const FunctionField& field, const Function& a, const Function& b);
bool has_default(const FunctionField& field, const Function& function);
// The value as a launch file spells it: 1e-06, true, silu, [1, 2].
std::string value_text(const FunctionField& field, const Function& function);
// Its number; of a switch 0 or 1. Requires: the field is no text or list.
double value_number(const FunctionField& field, const Function& function);

// An object of a model file: every field that is not at its default, read back strictly.
nlohmann::ordered_json write_function(const Function& function);
Function read_function(JsonReader reader);
// Fills what a config.json says into `function`, whose values are the family's own defaults.
void read_config_function(ConfigFields& fields, Function& function);
// Fields of the function that change nothing in this model (rotary ones without rotary positions)
// go back to their defaults, so that equal models compare equal.
void settle_function(Transformer& model);

// Throws core Error naming `where` for numbers that no model has (not finite, negative epsilon, …).
void check_function(const Function& function, const std::string& where);

}  // namespace trireme::models
