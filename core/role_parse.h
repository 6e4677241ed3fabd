// Reads the lines of one role in the text form of a step program.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/program.h"
#include "core/text_line.h"

namespace trireme {

// A group's number, or - for none.
GroupId parse_group(const TextLine& line, std::string_view text);

class RoleParser {
 public:
  explicit RoleParser(Program& role) : role_(role) {}
  // False when the line is not a role's. Throws Error.
  bool take(TextLine& line);

 private:
  using Indices = std::map<std::string, std::uint32_t, std::less<>>;

  std::uint32_t take_label(TextLine& line, std::int32_t& layer, std::int32_t& micro_batch);
  void take_buffer(TextLine& line);
  void take_unit(TextLine& line);
  void take_parameter(TextLine& line);
  void take_op(TextLine& line);
  void take_waits(TextLine& line, Op& op);
  void take_operands(TextLine& line, Op& op);
  Compute take_compute(TextLine& line, Kernel kernel);

  Program& role_;
  Indices names_, streams_;
  std::map<std::tuple<std::uint8_t, std::array<std::int64_t, 8>, std::int64_t>,
           std::vector<std::uint32_t>>
      works_;
};

}  // namespace trireme
