// How many file descriptors this process may have (the soft RLIMIT_NOFILE), and whether some are free. Thread: any.
#pragma once

#include <cstddef>

namespace muster::base {

// Raises the soft limit to the hard one. If the kernel refuses, the code that runs out of descriptors reports it.
void raise_descriptor_limit();

std::size_t descriptor_limit();

// Returns how many descriptors a listener leaves free for the rest of its process. This is 128, or a quarter of the
// limit if the limit is below 512.
std::size_t spare_descriptors();

// Returns true if one more descriptor can be opened while `spare` stay free. `fd` is any open descriptor, which this
// function duplicates for a moment. The kernel gives the duplicate the lowest free number, but does not report how many
// are free.
bool has_spare_descriptors(int fd, std::size_t spare);

}  // namespace muster::base
