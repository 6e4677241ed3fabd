#include "core/error.h"

#include <utility>

namespace trireme {

Error::Error(std::string where, const std::string& what, ErrorKind error_kind)
    : std::runtime_error(std::move(where) + ": " + what), kind_(error_kind) {}

}  // namespace trireme
