#include "core/json_reader.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace trireme {
namespace {

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

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

}  // namespace
}  // namespace trireme
