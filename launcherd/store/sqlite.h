// The only place that knows SQLite: a connection and prepared statements as move-only values with errors as Status.
//
// A connection and its statements belong to one thread at a time. Codes: RESOURCE_EXHAUSTED (disk full or read-only, no
// memory: it may work again later), ALREADY_EXISTS (a unique value is taken), DATA_LOSS (not a database, or damaged),
// UNAVAILABLE (busy, or the disk failed), INTERNAL (a bug in a statement of ours).
//
//   Execution find = statement.start();
//   find.bind(1, id);
//   MUSTER_ASSIGN_OR_RETURN(const bool found, find.next());
//   if (found) use(find.text(0));
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace muster::launcherd::inline store {

class Database;

// One run of a statement; forgets its values and its place at the end. The statement must outlive it.
class Execution {
 public:
  explicit Execution(sqlite3_stmt* statement) : statement_(statement) {}
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // Parameters count from 1. Bytes are copied. What cannot be bound is told by next() or run().
  void bind(int index, std::int64_t value);
  void bind(int index, std::string_view text);
  void bind_blob(int index, std::string_view bytes);
  void bind(int index, std::optional<std::int64_t> value);  // nullopt: NULL, as it is without a bind

  base::Result<bool> next();  // true: a row
  base::Status run();         // to the end; rows are skipped

  // Columns of the row, from 0.
  std::int64_t integer(int column) const;
  std::optional<std::int64_t> maybe_integer(int column) const;
  std::string bytes(int column) const;

 private:
  void note(int code);

  sqlite3_stmt* statement_;
  int bind_failure_ = 0;
};

class Statement {
 public:
  Statement() = default;  // empty: not to be started
  Execution start() const { return Execution(statement_.get()); }

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

class Database {
 public:
  enum class Access { kWrite, kRead };

  // The file must exist; an empty one is an empty database. Statements must be gone before the connection.
  static base::Result<Database> open(const std::string& path, Access access);

  base::Result<Statement> prepare(std::string_view sql);
  base::Status run(const std::string& sql);                    // one or more statements without values
  base::Result<std::string> value_of(const std::string& sql);  // first column of the first row; empty without one
  std::int64_t last_row() const;                               // of the last insert
  std::int64_t changed_rows() const;                           // by the last statement
  bool in_transaction() const;
  // Writes the write-ahead log back into the file and empties it. False: a reader is using it, try later. Waits for
  // nobody.
  base::Result<bool> empty_log();
  // Whether closing may write the log back into the file: not while the file is only looked at.
  void write_back_on_close(bool on);

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  explicit Database(sqlite3* handle) : handle_(handle) {}

  std::unique_ptr<sqlite3, Close> handle_;
};

}  // namespace muster::launcherd::store
