export default {
  logs: { file: false },
  output: { path: 'client', module: { extension: '.js' } },
};
