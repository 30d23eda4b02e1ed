// Folders that hold what this user runs or keeps secret. Another user must be able neither to put a file into them nor
// to put another folder in their place.
//
// Trusted users are the effective user and root. Errors are PERMISSION_DENIED: one sentence with the folder, its owner
// or mode, and what to do. Any thread; blocks for as long as the file system does.
#pragma once

#include <sys/stat.h>

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::base {

bool is_trusted_owner(uid_t owner);

// OK: the folder belongs to the effective user or root, and no other user may write into it.
// The user's private group may: a group whose gid is the uid and is the process's own group. Where useradd makes such
// groups, umask 002 and so mode 775 are the default (pam_umask, `usergroups`). Other groups have other members.
Status check_trusted_folder(const struct stat& info, const std::string& shown);

// The same for a folder in which the caller uses only plain files that belong to the effective user. It may also be one
// into which everyone may write, if it has the sticky bit: there only the owner of a file can exchange it.
Status check_folder_of_own_files(const struct stat& info, const std::string& shown);

struct FolderWalk {
  unsigned made_mode = 0755;  // of what is missing and is made; less the umask
  // Refuse a folder on the way into which everyone may write and that has no sticky bit: there everyone can exchange
  // the next one.
  bool needs_sticky = false;
};

// Opens the absolute `path`, and makes what is missing. Follows links as usual.
// Anybody can make a folder or link in a folder into which everyone may write (/tmp), so one there must belong to the
// effective user or root. Other folders on the way may have other owners, as a project's folders do: root, or an owner
// whom root trusts, has put them there.
// The folder itself is not checked: see check_trusted_folder. FAILED_PRECONDITION: something else has its name.
Result<UniqueFd> open_folder_by_trusted_path(const std::string& path, FolderWalk walk = {});

}  // namespace muster::base
