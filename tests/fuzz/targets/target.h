// A reader that is fuzzed: read_X(text) does with a text what the program does with a file of that
// kind. An Error of one line is an answer; anything else that is thrown, and every broken promise,
// ends the program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme::fuzz {

void read_model(std::string_view text);     // config.json and model files
void read_topology(std::string_view text);  // trireme.topology/1
void read_import(std::string_view text);    // what machines print about themselves
void read_profile(std::string_view text);   // trireme.profile
void read_program(std::string_view text);   // a step program's text
void read_shell(std::string_view text);     // a launch script, as the shell would
void read_megatron(std::string_view text);  // launch files, each to its estimate
void read_bridge(std::string_view text);
void read_torchtitan(std::string_view text);
void read_deepspeed(std::string_view text);
void read_accelerate(std::string_view text);
void read_trainer(std::string_view text);       // YAML of trainers, told by its contents
void read_rollouts(std::string_view text);      // scripts of verl and OpenRLHF
void read_measurements(std::string_view text);  // logs of nccl-tests, tables, micro-benchmarks
void read_training_log(std::string_view text);  // logs of Megatron-LM and torchtitan
void read_rows(std::string_view text);          // rows of published measurements
void read_checkpoint(std::string_view text);    // checkpoint.json
void read_frames(std::string_view text);        // what the store's clients send
void read_plan(std::string_view text);          // plan files
void read_trace(std::string_view text);         // traces and results, as compare reads them

struct Target {
  const char* name;  // of its corpus and its program fuzz_NAME
  void (*read)(std::string_view text);
};
// All of them; the corpora are replayed by a normal test.
const std::vector<Target>& targets();

// Calls it with an Error of one line as an answer.
void ask(void (*read)(std::string_view text), std::string_view text);
// Ends the program when a promise is broken.
void require(bool holds, const char* promise);

// A file of this process with this content; the same path every time for one extension.
std::string scratch_file(std::string_view text, std::string_view extension = "");

}  // namespace trireme::fuzz
