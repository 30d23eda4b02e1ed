// The name of launcherd's own user. Every caller on a Unix socket and on the HTTP port is this user.
#pragma once

#include <string>

namespace muster::launcherd::inline service {

// Looks the name up once; later calls return the same text. Returns "uid 1000" if the user has no name.
// Thread: any. The first call may block.
const std::string& own_user();

}  // namespace muster::launcherd::service
