// Stores a file on a host by SFTP version 3 (draft-ietf-secsh-filexfer-02), over the program that speaks it. Written
// here rather than with libssh's client: that one blocks, and waits for every answer; here up to 64 writes are under
// way, the Waiter ends it at any moment, and the `ssh` program can carry it as well.
#pragma once

#include <string>
#include <string_view>

#include "launcherd/bootstrap/remote_program.h"

namespace muster::launcherd::inline bootstrap {

// Makes `directory` (0700, with parents; relative to the home directory) and writes `content` to `path` (0700, must not
// exist). On failure the file may be there in part. `is_usable` is false when the other side speaks no SFTP (a noisy
// shell, no subsystem): then another way may work.
Failure sftp_upload(RemoteProgram& sftp, const std::string& directory, const std::string& path,
                    std::string_view content, const Waiter& waiter, bool& is_usable);

// Best effort: a file that turned out to be of no use.
void sftp_remove(RemoteProgram& sftp, const std::string& path, const Waiter& waiter);

}  // namespace muster::launcherd::bootstrap
