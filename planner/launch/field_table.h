// A launch format as a table, one row a field, and the one way each syntax writes a field's value:
// nothing in a name of people's (a model's, a cluster's, a file's) leaves its quotes or its
// comment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "planner/launch/export.h"
#include "planner/launch/launch_config.h"

namespace trireme::planner {

// A word of the format's language that is no text: a number with its exponent, a Python name.
struct Expression {
  std::string text;
};
using TextList = std::vector<std::string>;
// What stands in a file for a field; nothing (monostate): the file leaves the field out.
using FieldValue =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, TextList, Expression>;

using Condition = std::function<bool(const LaunchPlan&)>;

// What a row writes of a plan: the same for every plan ("AdamW"), a member of the plan, the job,
// the framework or the model (&Plan::tensor; nothing where the model has no such part), or what a
// function makes of it.
class FieldWriter {
 public:
  // Rows read as data: their values become writers by themselves.
  // NOLINTNEXTLINE(google-explicit-constructor)
  FieldWriter(std::nullptr_t) {}
  template <typename Value>
  // NOLINTNEXTLINE(google-explicit-constructor)
  FieldWriter(Value value) : write_(writer_of(std::move(value))) {}

  [[nodiscard]] FieldValue operator()(const LaunchPlan& launch) const {
    return write_ ? write_(launch) : FieldValue();
  }
  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(write_); }

 private:
  using Function = std::function<FieldValue(const LaunchPlan&)>;
  template <typename Value>
  static Function writer_of(Value value);
  Function write_;
};

// The value where `holds`, else nothing.
FieldValue when(bool holds, FieldValue value);
// A writer where the condition holds, else nothing; one of two.
FieldWriter given(Condition holds, FieldWriter write);
FieldWriter either(Condition holds, FieldWriter write, FieldWriter otherwise);

// One field. `key` is what the format calls it: section.key, or one of Megatron-LM's flags with
// underscores.
struct Field {
  std::string_view key;
  FieldWriter write;
};

// What lies between separators; "a__b" has an empty part, the end of a text has none.
std::vector<std::string_view> split_at(std::string_view text, char separator);
// The names of a list that blanks separate, and whether one is among them.
std::vector<std::string_view> names_in(std::string_view names);
bool is_among(std::string_view names, std::string_view name);

// Keys of a table and names that blanks separate: of others that are read, of beginnings, and of
// those that stand behind a beginning.
KnownKeys known_keys(std::span<const Field> table, std::string_view others,
                     std::string_view sections, std::string_view inside = {});
// The fields that the plan has, in the table's order.
std::vector<std::pair<std::string_view, FieldValue>> written_fields(std::span<const Field> table,
                                                                    const LaunchPlan& launch);

// What a comment and a terminal may show: control characters, the other line ends of Unicode,
// marks that turn the writing direction and bytes that are no UTF-8 stand as \x0a, \u2028.
std::string printable(std::string_view text);

// One word of a POSIX shell; in single quotes where a character would mean something to it.
std::string shell_word(std::string_view text);

// A string in double quotes whose escapes TOML, YAML, Python and JSON read alike.
std::string quoted(std::string_view text);

// A flag of a command line with its value: "--group-query-attention", "--window-size 127,0". A
// switch that is off is left out: empty.
std::string as_flag(std::string_view key, const FieldValue& value);
// A value as Python, TOML and YAML read it.
std::string as_python(const FieldValue& value);
std::string as_toml(const FieldValue& value);
std::string as_yaml(const FieldValue& value);
// Lines KEY = VALUE under [SECTION], and KEY: VALUE under SECTION:, in the table's order.
std::string toml_text(std::span<const Field> table, const LaunchPlan& launch);
std::string yaml_text(std::span<const Field> table, const LaunchPlan& launch);
// The JSON object that the keys' dots make, indented.
std::string json_text(std::span<const Field> table, const LaunchPlan& launch);

// ---- details of FieldWriter

// The part of the launch that has members of a type; nullptr: the model has no such part.
template <typename Owner>
const Owner* part_of(const LaunchPlan& launch) {
  if constexpr (std::is_same_v<Owner, LaunchPlan>) {
    return &launch;
  } else if constexpr (std::is_same_v<Owner, Plan>) {
    return &launch.plan;
  } else if constexpr (std::is_same_v<Owner, Job>) {
    return &launch.job;
  } else if constexpr (std::is_same_v<Owner, Framework>) {
    return &launch.job.framework;
  } else if constexpr (std::is_same_v<Owner, models::Transformer>) {
    return &launch.job.model;
  } else if constexpr (std::is_same_v<Owner, models::MixtureOfExperts>) {
    return launch.job.model.moe ? &*launch.job.model.moe : nullptr;
  } else {
    static_assert(std::is_same_v<Owner, models::LatentAttention>);
    return launch.job.model.latent ? &*launch.job.model.latent : nullptr;
  }
}

template <typename Owner, typename Member>
std::function<FieldValue(const LaunchPlan&)> member_writer(Member Owner::*member) {
  return [member](const LaunchPlan& launch) {
    const Owner* owner = part_of<Owner>(launch);
    return owner == nullptr ? FieldValue() : FieldValue(owner->*member);
  };
}

template <typename Value>
FieldWriter::Function FieldWriter::writer_of(Value value) {
  if constexpr (std::is_member_object_pointer_v<Value>) {
    return member_writer(value);
  } else if constexpr (std::is_invocable_v<Value, const LaunchPlan&>) {
    return [value](const LaunchPlan& launch) { return FieldValue(value(launch)); };
  } else {
    return [constant = FieldValue(std::move(value))](const LaunchPlan&) { return constant; };
  }
}

// What formats with sections hold their keys to before any is read: refuses
// "zero_optimization": 3 where the program looks for keys inside, and lists the settings whose keys
// are not known. Those of the table are, and the names as known_keys takes them. Throws Error
// (FILE:LINE).
void check_keys(LaunchConfig& config, std::span<const Field> table, std::string_view others,
                std::string_view sections, std::string_view inside = {});

// The tables of DeepSpeed's JSON and accelerate's YAML, which others write than read.
std::span<const Field> deepspeed_fields();
std::span<const Field> accelerate_fields();

}  // namespace trireme::planner
