// What ranks leave for each other: a checkpoint's list of pieces, and the store's frames.
#include <filesystem>
#include <string>

#include "core/files.h"
#include "runtime/checkpoint.h"
#include "runtime/cpu/threads.h"
#include "runtime/tcp_frame.h"
#include "tests/faults/tiny_program.h"
#include "tests/fuzz/targets/target.h"

namespace trireme::fuzz {

void read_checkpoint(std::string_view text) {
  static const StepProgram program = tests::tiny_program(1);
  static const std::string folder = scratch_file("") + ".checkpoint";
  std::filesystem::create_directories(folder);
  const std::string values = folder + "/rank-00000.bin";
  if (!std::filesystem::exists(values)) {
    write_file_atomically(values, std::string(200'000, '\0'));
  }
  std::filesystem::rename(scratch_file(text), folder + "/checkpoint.json");
  runtime::cpu::run_on_threads(program, {}, Seconds(60), [&](runtime::cpu::ThreadRank& self) {
    const runtime::CheckpointStep at = runtime::load_checkpoint(folder, self.executor);
    require(at.step >= 0 && at.sequences >= 0, "a step is none below zero");
  });
}

void read_frames(std::string_view text) {
  constexpr std::size_t kMost = 4096;
  std::string bytes(text);
  runtime::Frame frame;
  while (runtime::decode(bytes, frame, kMost)) {
    require(frame.key.size() + frame.value.size() <= kMost, "a frame is no larger than allowed");
    std::string again = runtime::encode(frame);
    runtime::Frame same;
    require(runtime::decode(again, same, kMost) && again.empty() && same.key == frame.key &&
                same.value == frame.value,
            "a frame reads back");
  }
}

}  // namespace trireme::fuzz
