# What `cmake --install` puts where, and the Debian package: the program with its man pages and completions, the
# library with its header files and CMake package, the Python module.
include(GNUInstallDirs)

install(TARGETS trireme RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS trireme_api EXPORT trireme LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

# yaml-cpp's ABI changes with each release, and distributions have different ones: the one built with goes along.
if(yaml-cpp_FOUND)
  set(bundled ${CMAKE_BINARY_DIR}/bundled)
  add_custom_target(trireme_bundled ALL
    COMMAND ${CMAKE_COMMAND} -E make_directory ${bundled}
    COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:yaml-cpp> ${bundled}/$<TARGET_SONAME_FILE_NAME:yaml-cpp> VERBATIM)
  install(FILES ${bundled}/$<TARGET_SONAME_FILE_NAME:yaml-cpp> DESTINATION ${CMAKE_INSTALL_LIBDIR}/trireme)
  file(GLOB copyright /usr/share/doc/libyaml-cpp*/copyright)
  if(copyright)
    list(GET copyright 0 copyright)
    install(FILES ${copyright} DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright.yaml-cpp)
  endif()
  # The second place is for roots without /proc, where a program does not know its own.
  set_target_properties(trireme PROPERTIES
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/trireme:${CMAKE_INSTALL_FULL_LIBDIR}/trireme")
  set_target_properties(trireme_api PROPERTIES INSTALL_RPATH "$ORIGIN/trireme")
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/api/include/trireme DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/trireme)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/trireme-config-version.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT trireme NAMESPACE trireme:: DESTINATION ${package_folder} FILE trireme-config.cmake)
install(FILES ${CMAKE_BINARY_DIR}/trireme-config-version.cmake DESTINATION ${package_folder})

# Pages and completions are written by the program that they describe.
set(manual ${CMAKE_BINARY_DIR}/manual)
add_custom_command(OUTPUT ${manual}/written
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${manual}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${manual}/man
  COMMAND trireme manual --output ${manual}/man
  COMMAND trireme manual --shell bash > ${manual}/trireme
  COMMAND trireme manual --shell zsh > ${manual}/_trireme
  COMMAND trireme manual --shell fish > ${manual}/trireme.fish
  COMMAND ${CMAKE_COMMAND} -E touch ${manual}/written
  DEPENDS trireme VERBATIM)
add_custom_target(trireme_manual ALL DEPENDS ${manual}/written)
install(DIRECTORY ${manual}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${manual}/trireme DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${manual}/_trireme DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${manual}/trireme.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs FILES_MATCHING PATTERN "*.md")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME trireme)
set(CPACK_PACKAGE_VENDOR "Trireme")
set(CPACK_PACKAGE_CONTACT "the authors of Trireme")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "planner and simulator of parallel training of transformers")
set(CPACK_PACKAGE_DESCRIPTION
    "Tells which parallel layout to train a transformer with on given GPUs, how fast a step will be, whether it fits in memory, and what would change if.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR}/api ${CMAKE_BINARY_DIR}/bundled)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
if(TARGET trireme_python)
  configure_file(${PROJECT_SOURCE_DIR}/tools/cmake/prerm.in ${CMAKE_BINARY_DIR}/prerm @ONLY
                 FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/prerm)
endif()
# `import trireme` needs numpy; the program needs neither it nor Python.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3, python3-numpy")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "man-db")
include(CPack)

enable_testing()
add_test(NAME installed COMMAND ${PROJECT_SOURCE_DIR}/tests/package/installed.sh ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR})
foreach(suite bookworm noble)
  add_test(NAME debian_${suite} COMMAND ${PROJECT_SOURCE_DIR}/tests/package/debian.sh ${CMAKE_BINARY_DIR} ${suite})
endforeach()
set_tests_properties(installed debian_bookworm debian_noble PROPERTIES LABELS package TIMEOUT 1200 SKIP_RETURN_CODE 77)
