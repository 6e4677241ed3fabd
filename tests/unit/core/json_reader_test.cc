#include "core/json_reader.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "tests/unit/message_of.h"

namespace trireme {
namespace {

TEST(JsonReader, NamesFileAndPointerOfEveryFault) {
  const nlohmann::json json =
      parse_json(R"({"gpu": {"memory": "80 GiBB", "count": 0.5}})", "c.json");
  JsonReader reader(json, "c.json");
  JsonReader gpu = reader.object("gpu");
  EXPECT_NE(message_of([&] { gpu.bytes("memory"); }).find("c.json#/gpu/memory: "),
            std::string::npos);
  EXPECT_NE(message_of([&] { gpu.integer("count"); }).find("whole number"), std::string::npos);
  EXPECT_NE(message_of([&] { gpu.text("name"); }).find("c.json#/gpu/name: is missing"),
            std::string::npos);
}

TEST(JsonReader, UnreadKeysAreErrors) {
  const nlohmann::json json = parse_json(R"({"gpus": 8, "gpuz": 9})", "c.json");
  JsonReader reader(json, "c.json");
  EXPECT_EQ(reader.integer("gpus", 1), 8);
  EXPECT_NE(message_of([&] { reader.finish(); }).find("c.json#/gpuz: is an unknown key"),
            std::string::npos);
}

TEST(JsonReader, BrokenTextNamesItsLine) {
  EXPECT_NE(message_of([] {
              parse_json("{\n\"a\": 1,\n]", "b.json");
            }).find("b.json:3: is not valid JSON"),
            std::string::npos);
  EXPECT_NE(message_of([] { parse_json("  \n", "b.json"); }).find("b.json: is empty"),
            std::string::npos);
}

// A profile of 100,000 objects in each other ended the program by a signal.
TEST(JsonReader, DeepNestingIsAnError) {
  const auto nested = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) {
      text += R"({"[{\"": )";
    }
    return text + "1" + std::string(static_cast<std::size_t>(depth), '}');
  };
  EXPECT_EQ(message_of([&] { parse_json(nested(200), "d.json"); }), "");
  EXPECT_NE(message_of([&] { parse_json(nested(201), "d.json"); }).find("d.json: nests"),
            std::string::npos);
  EXPECT_NE(message_of([&] { parse_json(nested(100000), "d.json"); }).find("d.json: nests"),
            std::string::npos);
}

// The last value of a key stood in for all of them.
TEST(JsonReader, AKeyGivenTwiceIsAnError) {
  EXPECT_NE(message_of([&] {
              parse_json("{\"tp\": 1,\n \"pp\": 2,\n \"tp\": 4}", "k.json");
            }).find("k.json:3: has the key 'tp' a second time"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              parse_json(R"({"a": {"b": [{"c": 1, "\u0063": 2}]}})", "k.json");
            }).find("k.json:1: has the key 'c' a second time"),
            std::string::npos);
  EXPECT_EQ(message_of([&] {
              parse_json(R"({"a": {"a": 1, "b": "a"}, "b": [{"a": ":"}, {"a": "\":{"}]})",
                         "k.json");
            }),
            "");
}

// 2^53 + 1 was read as 2^53.
TEST(JsonReader, WholeNumbersAreExactOverSixtyFourBits) {
  const auto read = [](const std::string& text) {
    const nlohmann::json json = parse_json("{\"n\": " + text + "}", "n.json");
    return JsonReader(json, "n.json").integer("n");
  };
  EXPECT_EQ(read("9007199254740993"), 9007199254740993);
  EXPECT_EQ(read("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(read("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(read("1e6"), 1000000);
  for (const char* wrong : {"9223372036854775808", "1e17", "9007199254740993.0", "1.5", "true"}) {
    EXPECT_NE(message_of([&] { read(wrong); }).find("whole number"), std::string::npos) << wrong;
  }
  const nlohmann::json json = parse_json(R"({"n": 5})", "n.json");
  EXPECT_NE(message_of([&] {
              JsonReader(json, "n.json").integer("n", 1, 4);
            }).find("is 5; it must be between 1 and 4"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme
