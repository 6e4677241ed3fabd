#include "tools/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "core/error.h"

namespace trireme::tools {
namespace {

void end_group(int /*signal*/) {
  ::kill(0, SIGKILL);
}

int code_of_status(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Leads the group, waits for the command, and takes the group along when its parent dies.
[[noreturn]] void supervise(const char* command, int output, pid_t parent) {
  ::setpgid(0, 0);
  ::signal(SIGTERM, end_group);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) {
    ::_exit(1);  // it died before the line above
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGTERM, SIG_DFL);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    ::execl("/bin/sh", "sh", "-c", command, nullptr);
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ::_exit(code_of_status(status));
}

bool has_ended(pid_t child) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == child;
}

}  // namespace

Ended run_command(const std::string& command, const std::string& log, double limit) {
  const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (output < 0) {
    throw Error(log, std::string("cannot be written: ") + std::strerror(errno));
  }
  const auto begin = std::chrono::steady_clock::now();
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    supervise(command.c_str(), output, parent);
  }
  ::close(output);
  if (child < 0) {
    throw Error("tune", std::string("no process can be started: ") + std::strerror(errno));
  }
  ::setpgid(child, child);  // as the child does; whoever is first
  Ended ended;
  const auto spent = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  while (!has_ended(child)) {
    if (spent() > limit) {
      ended.timed_out = true;
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ended.seconds = spent();
  ::kill(-child, SIGKILL);  // before the leader is waited for, while its number is its own
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ended.exit_code = code_of_status(status);
  return ended;
}

}  // namespace trireme::tools
