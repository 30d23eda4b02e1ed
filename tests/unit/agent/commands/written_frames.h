// Reads the framed messages that a command of the agent writes to its stdout.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "proto/frame.h"

namespace muster::testing_support {

// Runs `command` in a process of its own and returns the messages that it writes. `command` returns a base::Status.
template <typename Message, typename Command>
std::vector<Message> written_frames(Command command) {
  auto pipe = base::make_pipe();
  if (!pipe.ok()) return {};
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe->second.get(), STDOUT_FILENO);
    ::_exit(command().ok() ? 0 : 1);
  }
  pipe->second.reset();
  proto::FrameReader frames;
  char chunk[4096];
  ssize_t count = 0;
  while ((count = ::read(pipe->first.get(), chunk, sizeof chunk)) > 0) {
    frames.feed({chunk, static_cast<std::size_t>(count)});
  }
  ::waitpid(child, nullptr, 0);
  std::vector<Message> messages;
  for (auto body = frames.next(); body.ok() && *body; body = frames.next()) {
    EXPECT_TRUE(messages.emplace_back().ParseFromString(**body));
  }
  return messages;
}

}  // namespace muster::testing_support
