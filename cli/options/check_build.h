// --check-build: reports what this build contains, in the format of horovodrun.
// Thread: any; all functions are pure.
#pragma once

#include <string>

namespace muster::cli::inline options {

// Frameworks are true if Muster's Python package `horovod` has a module for them.
// Controllers are those of Horovod that ranks can use.
// Operations are the libraries that libmuster uses for collectives, or replaces.
struct BuildFeatures {
  bool tensorflow = false;
  bool pytorch = false;
  bool mxnet = false;
  bool mpi = false;
  bool gloo = false;
  bool nccl_operations = false;
  bool mpi_operations = false;
  bool gloo_operations = false;
};

BuildFeatures this_build();

// With `verbose`, an empty line comes first, because horovodrun prints one.
std::string format_build(const BuildFeatures& features, bool verbose);

}  // namespace muster::cli::options
