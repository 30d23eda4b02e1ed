// The tables of the job store and how a file gets from one version of them to the next. Blocking.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "launcherd/store/sqlite.h"

namespace muster::launcherd::inline store {

// The i-th (from 0) brings a file from version i to i + 1. Never changed once released: a new version is a new entry.
std::span<const std::string_view> store_migrations();

// Makes the file (0600; SQLite gives its -wal and -shm the same mode) if it is missing, checks that it is ours and
// whole, and brings it up to date in one transaction: a migration that fails leaves the version that was. DATA_LOSS:
// damaged, FAILED_PRECONDITION: of another program, or of a newer launcherd; nothing in the file is changed then. The
// check reads all of the file.
base::Result<Database> open_store(const std::string& path, std::span<const std::string_view> migrations);

}  // namespace muster::launcherd::store
