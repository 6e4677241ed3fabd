#include "tests/fuzz/targets/target.h"

namespace trireme::fuzz {

const std::vector<Target>& targets() {
  static const std::vector<Target> all = {{"model", &read_model},
                                          {"topology", &read_topology},
                                          {"import", &read_import},
                                          {"profile", &read_profile},
                                          {"program", &read_program},
                                          {"shell", &read_shell},
                                          {"megatron", &read_megatron},
                                          {"bridge", &read_bridge},
                                          {"torchtitan", &read_torchtitan},
                                          {"deepspeed", &read_deepspeed},
                                          {"accelerate", &read_accelerate},
                                          {"trainer", &read_trainer},
                                          {"rollouts", &read_rollouts},
                                          {"measurements", &read_measurements},
                                          {"training_log", &read_training_log},
                                          {"rows", &read_rows},
                                          {"checkpoint", &read_checkpoint},
                                          {"frames", &read_frames},
                                          {"plan", &read_plan},
                                          {"trace", &read_trace}};
  return all;
}

}  // namespace trireme::fuzz
