// Lines for the user that are no result of a call, such as a tensor that waits for a rank: to stderr.
#pragma once

#include <string>

namespace muster::collectives::inline call {

// "muster: <line>\n", in one write.
void tell(const std::string& line);

}  // namespace muster::collectives::call
