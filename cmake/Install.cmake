# Installation and packages: the layout of docs/design.md. An installed tree can be moved: programs find what they need
# from their own place.
#   cmake --install build/release --prefix P        installs
#   cmake --build build/release --target uninstall  removes what the last cmake --install of this tree has written
#   cpack --config build/release/CPackConfig.cmake -G DEB (or TGZ)
# Two packages of one build and one SOURCE_DATE_EPOCH are equal byte for byte.
set(CMAKE_INSTALL_LIBDIR lib CACHE PATH "Folder of libraries below the prefix")
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(share ${CMAKE_INSTALL_DATADIR})

# First: which of these folders the installation makes. Uninstalling removes those that are empty then. What is installed
# as a component is a part of a package (packaging/portable/pack.py).
install(CODE "set(made \"${CMAKE_BINARY_DIR}/install_folders.txt\")
foreach(folder . bin libexec lib lib/pkgconfig lib/cmake lib/sysusers.d lib/systemd lib/systemd/system lib/systemd/user
               include share share/man share/man/man1 share/doc share/bash-completion
               share/bash-completion/completions share/zsh share/zsh/site-functions share/fish share/fish/vendor_completions.d)
  set(path \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/\${folder}\")
  cmake_path(NORMAL_PATH path)
  if(NOT CMAKE_INSTALL_COMPONENT AND NOT EXISTS \"\${path}\")
    file(APPEND \"\${made}\" \"\${path}\\n\")
  endif()
endforeach()")
# The same in the build tree, so that nothing has to be changed in the programs.
set_target_properties(muster_perf PROPERTIES INSTALL_RPATH "$ORIGIN/../lib" BUILD_WITH_INSTALL_RPATH ON)
set_target_properties(hvdrun muster launcherd PROPERTIES SKIP_BUILD_RPATH ON)  # they need no library but the machine's own
install(TARGETS hvdrun muster launcherd muster_perf RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(CODE "file(CREATE_LINK hvdrun \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/horovodrun\" SYMBOLIC)
list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/horovodrun\")")
# Not as TARGETS: CMake's own strip would change the agent, and its hash would not be that of the compressed one.
install(PROGRAMS $<TARGET_FILE:muster-agent> $<TARGET_FILE:muster-unpack> DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/muster)
install(FILES $<TARGET_FILE:muster-agent>.zst DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/muster)
install(TARGETS libmuster EXPORT muster LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/collectives/include/muster DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# The Python package, with Horovod's name for it.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/python/muster DESTINATION ${share}/muster/python
        FILES_MATCHING PATTERN "*.py" PATTERN "py.typed" PATTERN "METADATA" PATTERN "entry_points.txt" PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/python/psij-descriptors ${CMAKE_SOURCE_DIR}/python/snakemake_executor_plugin_muster DESTINATION ${share}/muster/python FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
# The contract of launchers: as messages for Python, and for generators of other languages
# (protoc -I PREFIX/share/muster/proto muster/v1/launcher.proto).
install(FILES ${MUSTER_PYTHON_MESSAGES} DESTINATION ${share}/muster/python/muster/v1)
list(TRANSFORM MUSTER_API_CONTRACTS PREPEND ${CMAKE_SOURCE_DIR}/proto/ OUTPUT_VARIABLE contracts)
install(FILES ${contracts} DESTINATION ${share}/muster/proto/muster/v1)

install(FILES LICENSE README.md DESTINATION ${share}/doc/muster)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs/ DESTINATION ${share}/doc/muster/docs FILES_MATCHING PATTERN "*.md" PATTERN "*.png" PATTERN "*.svg")
install(DIRECTORY ${CMAKE_SOURCE_DIR}/job_templates/templates DESTINATION ${share}/muster FILES_MATCHING PATTERN "*.yaml")
install(FILES ${CMAKE_BINARY_DIR}/share/muster/launcherd.schema.json ${CMAKE_BINARY_DIR}/share/muster/openapi.json DESTINATION ${share}/muster)
install(FILES ${CMAKE_SOURCE_DIR}/packaging/grafana/launcherd.json ${CMAKE_SOURCE_DIR}/packaging/grafana/alerts.yaml DESTINATION ${share}/muster/grafana)
install(DIRECTORY ${CMAKE_BINARY_DIR}/share/man ${CMAKE_BINARY_DIR}/share/bash-completion ${CMAKE_BINARY_DIR}/share/zsh
                  ${CMAKE_BINARY_DIR}/share/fish DESTINATION ${share})

# launcherd as a service. The units name the programs' folder below the prefix of the installation. A tarball has no
# prefix, so those of a tarball name /usr/local.
foreach(kind system user)
  install(CODE "set(bindir \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
if(bindir MATCHES \"/_CPack_Packages/\")
  set(bindir \"/usr/local/${CMAKE_INSTALL_BINDIR}\")
endif()
configure_file(\"${CMAKE_SOURCE_DIR}/packaging/systemd/launcherd.${kind}.service.in\" \"${CMAKE_BINARY_DIR}/units/${kind}/launcherd.service\" @ONLY)")
  install(FILES ${CMAKE_BINARY_DIR}/units/${kind}/launcherd.service DESTINATION lib/systemd/${kind})
  install(FILES ${CMAKE_SOURCE_DIR}/packaging/systemd/launcherd.${kind}.socket DESTINATION lib/systemd/${kind} RENAME launcherd.socket)
endforeach()

install(FILES ${CMAKE_SOURCE_DIR}/packaging/sysusers/muster.conf DESTINATION lib/sysusers.d)

# For programs that use libmuster.
configure_file(${CMAKE_SOURCE_DIR}/cmake/muster.pc.in ${CMAKE_BINARY_DIR}/muster.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/muster.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/muster)
set_target_properties(libmuster PROPERTIES EXPORT_NAME muster)
install(EXPORT muster NAMESPACE muster:: FILE muster-targets.cmake DESTINATION ${package})
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/muster-config.cmake.in ${CMAKE_BINARY_DIR}/muster-config.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/muster-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/muster-config.cmake ${CMAKE_BINARY_DIR}/muster-config-version.cmake DESTINATION ${package})

add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -DMANIFEST=${CMAKE_BINARY_DIR}/install_manifest.txt
                                    -DFOLDERS=${CMAKE_BINARY_DIR}/install_folders.txt -P ${CMAKE_SOURCE_DIR}/cmake/uninstall.cmake VERBATIM)

set(CPACK_PACKAGE_NAME muster)
set(CPACK_PACKAGE_VENDOR "Muster")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "launcher of distributed programs")
set(CPACK_PACKAGE_DESCRIPTION "Starts one program on many hosts, serves the rendezvous of Horovod, PyTorch and MPI,\n names the rank that failed, and leaves no process behind.")
set(CPACK_PACKAGE_FILE_NAME muster-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "The Muster team <muster@localhost>")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "openssh-client")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3, openssh-server")
include(CPack)
