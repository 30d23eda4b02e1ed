// Prints lines for the user that are not the result of a call, such as a tensor that waits for a rank.
#pragma once

#include <string>

namespace muster::collectives::inline call {

// Writes "muster: <line>\n" to stderr in one write.
void print_notice(const std::string& line);

}  // namespace muster::collectives::call
