#include <optional>
#include <string>

#include "planner/shell/script.h"
#include "tests/fuzz/targets/target.h"

namespace trireme::fuzz {

void read_shell(std::string_view text) {
  planner::ShellWorld world{.words = {"7B", "2"}};
  world.read = [](const std::string& name) -> std::optional<std::string> {
    return name == "other.sh" ? std::optional<std::string>("A=1\n") : std::nullopt;
  };
  for (const int choice : {-1, 0, 1}) {
    world.choice = choice;
    planner::read_shell(text, "run.sh", world);
  }
}

}  // namespace trireme::fuzz
