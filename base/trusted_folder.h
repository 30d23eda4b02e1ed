// Checks folders that hold programs or secrets of this user. Another user must not be able to put a file into these
// folders or to replace them.
//
// Trusted users are the effective user and root.
// Errors: PERMISSION_DENIED, with one sentence that names the folder, its owner or mode, and what to do.
// Thread: any; blocks as long as the file system does.
#pragma once

#include <sys/stat.h>

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::base {

bool is_trusted_owner(uid_t owner);

// OK if the folder belongs to the effective user or root, and no other user may write into it.
// The user's private group may write: a group whose gid equals the uid and is the process's own group. Where useradd
// makes such groups, the default is umask 002 and so mode 775 (pam_umask, `usergroups`). Any other group may have other
// members, so it may not write.
Status check_trusted_folder(const struct stat& info, const std::string& shown);

// Does the same check for a folder in which the caller uses only plain files that belong to the effective user. All
// users may write into it if it has the sticky bit. Then only the owner of a file can replace it.
Status check_folder_of_own_files(const struct stat& info, const std::string& shown);

struct FolderWalk {
  unsigned made_mode = 0755;  // mode of the missing folders that the walk makes, less the umask
  // Refuse a folder on the path that all users may write and that has no sticky bit. There any user could replace the
  // next folder.
  bool needs_sticky = false;
};

// Opens the absolute `path` and makes missing folders. Follows links as usual.
// Any user can make a folder or link in a folder that all users may write (/tmp). So an entry there must belong to the
// effective user or root. Other folders on the path may have other owners, as a project's folders do. Root, or an owner
// whom root trusts, has made those.
// The last folder itself is not checked; see check_trusted_folder. FAILED_PRECONDITION if an entry of that name is no
// folder.
Result<UniqueFd> open_folder_by_trusted_path(const std::string& path, FolderWalk walk = {});

}  // namespace muster::base
