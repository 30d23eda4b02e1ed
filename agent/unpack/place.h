// Place is where muster-unpack puts the agent: the folder of its own file. It owns both temporary files there, the
// program itself and the agent that is being written. Its destructor removes both.
//
//   .agent-<build>-<machine>.<random>        muster-unpack itself; the login shell has received it
//   .agent-<build>-<machine>.<random>_new    the agent while it is written
//   agent-<build>-<machine>                  the agent, complete and checked
#pragma once

#include <string>

#include "agent/unpack/hashed_file.h"

namespace muster::agent::inline unpack {

class Place {
 public:
  Place() = default;
  ~Place();
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  // `own_path` is the file of the running program. Fails, and then removes nothing, if its name does not begin with
  // ".agent-": someone has started the program by hand.
  Problem open(const std::string& own_path);
  // Makes the temporary file of the agent anew, so that a second attempt begins with an empty one.
  Problem create(int& fd);
  // Renames the temporary file to `name`, which may replace a file.
  Problem keep(const std::string& name);

  std::string path_of(const std::string& name) const { return folder_ + "/" + name; }

 private:
  void close_new();

  std::string folder_;
  std::string own_name_;  // empty until open() has succeeded
  int new_fd_ = -1;
};

}  // namespace muster::agent::unpack
