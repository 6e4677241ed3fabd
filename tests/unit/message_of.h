// What an action complains of.
#pragma once

#include <functional>
#include <string>

#include "core/error.h"

namespace trireme {

// The message of the Error that it throws; "" when it throws none.
inline std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace trireme
