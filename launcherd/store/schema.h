// Creates the tables of the job store, and migrates a file from one version to the next. Blocking.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "launcherd/store/sqlite.h"

namespace muster::launcherd::inline store {

// Entry i (from 0) migrates a file from version i to i + 1. Never change a released entry; add a new one instead.
std::span<const std::string_view> store_migrations();

// Creates the file if it is missing (mode 0600; SQLite gives its -wal and -shm the same mode). Checks that the file is
// ours and undamaged. Then migrates it in one transaction, so that a failed migration keeps the old version.
// DATA_LOSS: the file is damaged. FAILED_PRECONDITION: it belongs to another program or a newer launcherd. In both
// cases the file does not change.
base::Result<Database> open_store(const std::string& path, std::span<const std::string_view> migrations);

}  // namespace muster::launcherd::store
