#include "core/json_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

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

// A profile of 100,000 objects in each other ended the program by a signal.
TEST(JsonReader, DeepNestingIsAnError) {
  const auto nested = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) {
      text += R"({"[{\"": )";
    }
    return text + "1" + std::string(static_cast<std::size_t>(depth), '}');
  };
  EXPECT_EQ(message_of([&] { parse_json(nested(200), "d.json"); }), "no error");
  EXPECT_NE(message_of([&] { parse_json(nested(201), "d.json"); }).find("d.json: nests"),
            std::string::npos);
  EXPECT_NE(message_of([&] { parse_json(nested(100000), "d.json"); }).find("d.json: nests"),
            std::string::npos);
}

class WrittenFile : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string text_of(const std::string& name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("trireme_written_{}", ::getpid());
};

// A link was replaced by a file, and a file that only its owner may read became readable by all.
TEST_F(WrittenFile, LinksStayLinksAndModesStay) {
  namespace fs = std::filesystem;
  const std::string real = (folder_ / "real.json").string();
  const std::string link = (folder_ / "link.json").string();
  write_file_atomically(real, "old");
  fs::permissions(real, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("real.json", link);
  write_file_atomically(link, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(text_of("real.json"), "new");
  EXPECT_EQ(fs::status(real).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

// With enough rights a device was replaced by a file.
TEST_F(WrittenFile, WhatIsNoFileIsWrittenTo) {
  namespace fs = std::filesystem;
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] {
    std::ifstream file(pipe);
    got.assign(std::istreambuf_iterator<char>(file), {});
  });
  write_file_atomically(pipe, "text");
  reader.join();
  EXPECT_EQ(got, "text");
  EXPECT_TRUE(fs::is_fifo(pipe));
}

}  // namespace
}  // namespace trireme
