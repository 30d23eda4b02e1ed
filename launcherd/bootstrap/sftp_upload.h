// Stores a file on a host by SFTP version 3 (draft-ietf-secsh-filexfer-02), over a RemoteProgram that speaks it.
// This code does not use libssh's SFTP client, because that client blocks and waits for every reply. This code keeps
// up to 64 writes in flight, and the Waiter can end it at any time. It also works over the `ssh` program.
#pragma once

#include <string>
#include <string_view>

#include "launcherd/bootstrap/remote_program.h"

namespace muster::launcherd::inline bootstrap {

// Creates `directory` (mode 0700, with parents, relative to the home directory). Writes `content` to `path` (mode 0700,
// must not exist). After a failure a part of the file may remain. `is_usable` is false if the host does not speak SFTP
// (a noisy shell, no subsystem). The caller may then try another way.
Failure sftp_upload(RemoteProgram& sftp, const std::string& directory, const std::string& path,
                    std::string_view content, const Waiter& waiter, bool& is_usable);

// Removes a useless file. Best effort: errors are ignored.
void sftp_remove(RemoteProgram& sftp, const std::string& path, const Waiter& waiter);

}  // namespace muster::launcherd::bootstrap
