// Turns a test's loop until something has happened. A test that waits too long fails.
#pragma once

#include <chrono>
#include <functional>

#include <gtest/gtest.h>

#include "base/loop.h"

namespace muster::testing_support {

// Asks every 5 ms. `loop` must not be running.
inline void turn_until(base::Loop& loop, const std::function<bool()>& is_done) {
  const base::Timer looking = loop.every(std::chrono::milliseconds(5), [&] {
    if (is_done()) loop.stop();
  });
  const base::Timer deadline = loop.after(std::chrono::seconds(30), [&] {
    ADD_FAILURE() << "the test's deadline passed";
    loop.stop();
  });
  loop.run();
}

}  // namespace muster::testing_support
