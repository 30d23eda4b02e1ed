// Finds the field of a request that an error names. Pure.
#pragma once

#include <string_view>

namespace muster::launcherd::inline service {

// Returns the field at the beginning of the message: "spec.hosts[1].slots" of "spec.hosts[1].slots: must be …". Empty
// if the message does not begin with a field.
std::string_view field_of(std::string_view message);

}  // namespace muster::launcherd::service
